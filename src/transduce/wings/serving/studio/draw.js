// A canvas to draw on: with dark ink on bright paper, or the reverse, as the model's pictures have it.

export function drawing(canvas, drawn) {
  const pen = canvas.getContext("2d");
  let before = null, ink = "#000", paper = "#fff";
  const place = (event) => {
    const box = canvas.getBoundingClientRect();
    return [((event.clientX - box.left) * canvas.width) / box.width, ((event.clientY - box.top) * canvas.height) / box.height];
  };
  const clear = () => {
    pen.fillStyle = paper;
    pen.fillRect(0, 0, canvas.width, canvas.height);
  };
  const line = (from, to) => {
    pen.strokeStyle = ink;
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
  canvas.addEventListener("pointerup", () => {
    if (before) drawn();
    before = null;
  });
  canvas.addEventListener("pointercancel", () => { before = null; });
  const useInk = (dark) => {
    if (dark === (ink === "#000")) return;
    [ink, paper] = [paper, ink];
    clear();
  };
  clear();
  return { clear, useInk, file: () => new Promise((made) => canvas.toBlob(made, "image/png")) };
}
