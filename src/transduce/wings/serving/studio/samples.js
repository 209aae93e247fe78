// Runs in the thread of the sound: hands over the samples of the first channel.

registerProcessor("samples", class extends AudioWorkletProcessor {
  process([channels]) {
    if (channels.length) this.port.postMessage(channels[0].slice());
    return true;
  }
});
