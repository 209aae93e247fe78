// Records the microphone as a WAV file of 16 bits, which the server can read.

export async function recorder() {
  const stream = await navigator.mediaDevices.getUserMedia({ audio: { channelCount: 1 } });
  const context = new AudioContext({ sampleRate: 16000 });
  await context.audioWorklet.addModule("/studio/samples.js");
  const node = new AudioWorkletNode(context, "samples");
  const parts = [];
  node.port.onmessage = ({ data }) => parts.push(data);
  context.createMediaStreamSource(stream).connect(node);
  return async () => {
    stream.getTracks().forEach((track) => track.stop());
    await context.close();
    return wav(parts, 16000);
  };
}

export function wav(parts, rate) {
  const count = parts.reduce((sum, part) => sum + part.length, 0);
  const view = new DataView(new ArrayBuffer(44 + 2 * count));
  const text = (at, letters) => [...letters].forEach((letter, index) => view.setUint8(at + index, letter.charCodeAt(0)));
  text(0, "RIFF");
  view.setUint32(4, 36 + 2 * count, true);
  text(8, "WAVEfmt ");
  view.setUint32(16, 16, true);
  view.setUint16(20, 1, true);
  view.setUint16(22, 1, true);
  view.setUint32(24, rate, true);
  view.setUint32(28, 2 * rate, true);
  view.setUint16(32, 2, true);
  view.setUint16(34, 16, true);
  text(36, "data");
  view.setUint32(40, 2 * count, true);
  let at = 44;
  for (const part of parts) {
    for (const sample of part) {
      view.setInt16(at, 32767 * Math.max(-1, Math.min(1, sample)), true);
      at += 2;
    }
  }
  return new Blob([view], { type: "audio/wav" });
}
