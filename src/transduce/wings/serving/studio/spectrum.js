// The picture of a sound: its spectrum over time, drawn here in the browser.

const SIZE = 512, STEP_MOST = 600, BANDS = 128; // samples of a window; columns; rows

// A canvas with the spectrum of a sound, low sounds below; null if the browser cannot read the file.
export async function spectrum(file) {
  let samples;
  try {
    const sound = await new OfflineAudioContext(1, 1, 16000).decodeAudioData(await file.arrayBuffer());
    samples = sound.getChannelData(0);
  } catch {
    return null;
  }
  const step = Math.max(128, Math.ceil(samples.length / STEP_MOST)), columns = Math.max(1, Math.floor((samples.length - SIZE) / step) + 1);
  const canvas = document.createElement("canvas");
  Object.assign(canvas, { width: columns, height: BANDS, className: "spectrum" });
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", `Spectrum of ${(samples.length / 16000).toFixed(1)} seconds of sound`);
  const pen = canvas.getContext("2d"), image = pen.createImageData(columns, BANDS);
  const window = Float32Array.from({ length: SIZE }, (_, n) => 0.5 - 0.5 * Math.cos((2 * Math.PI * n) / (SIZE - 1)));
  for (let column = 0; column < columns; column++) {
    const real = Float32Array.from(window, (weight, n) => weight * (samples[column * step + n] ?? 0)), imaginary = new Float32Array(SIZE);
    transform(real, imaginary);
    for (let band = 0; band < BANDS; band++) {
      const bin = Math.round((band * SIZE) / 2 / BANDS), power = real[bin] ** 2 + imaginary[bin] ** 2;
      const level = Math.min(1, Math.max(0, (Math.log10(power + 1e-7) + 4) / 6));
      const at = 4 * ((BANDS - 1 - band) * columns + column);
      image.data.set([255 * level ** 1.5, 60 + 160 * level ** 2, 90 + 150 * Math.sqrt(level) * (1 - level / 2), 255], at);
    }
  }
  pen.putImageData(image, 0, 0);
  return canvas;
}

// The fast Fourier transform in place; the length is a power of two.
function transform(real, imaginary) {
  const count = real.length;
  for (let i = 1, j = 0; i < count; i++) {
    let bit = count >> 1;
    for (; j & bit; bit >>= 1) j ^= bit;
    j ^= bit;
    if (i < j) [real[i], real[j], imaginary[i], imaginary[j]] = [real[j], real[i], imaginary[j], imaginary[i]];
  }
  for (let half = 1; half < count; half *= 2) {
    for (let start = 0; start < count; start += 2 * half) {
      for (let k = 0; k < half; k++) {
        const angle = (-Math.PI * k) / half, cos = Math.cos(angle), sin = Math.sin(angle), a = start + k, b = a + half;
        const x = real[b] * cos - imaginary[b] * sin, y = real[b] * sin + imaginary[b] * cos;
        [real[b], imaginary[b]] = [real[a] - x, imaginary[a] - y];
        [real[a], imaginary[a]] = [real[a] + x, imaginary[a] + y];
      }
    }
  }
}
