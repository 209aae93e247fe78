// A canvas to draw on, black on white.

export function drawing(canvas) {
  const pen = canvas.getContext("2d");
  let before = null;
  const place = (event) => {
    const box = canvas.getBoundingClientRect();
    return [((event.clientX - box.left) * canvas.width) / box.width, ((event.clientY - box.top) * canvas.height) / box.height];
  };
  const clear = () => {
    pen.fillStyle = "#fff";
    pen.fillRect(0, 0, canvas.width, canvas.height);
  };
  const line = (from, to) => {
    pen.strokeStyle = "#000";
    pen.lineWidth = 22;
    pen.lineCap = "round";
    pen.beginPath();
    pen.moveTo(...from);
    pen.lineTo(...to);
    pen.stroke();
  };
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    before = place(event);
    line(before, before);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!before) return;
    const now = place(event);
    line(before, now);
    before = now;
  });
  for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, () => { before = null; });
  clear();
  return { clear, file: () => new Promise((made) => canvas.toBlob(made, "image/png")) };
}
