// Code shared by the cases: inputs, and the line that a case prints.
import fs from 'node:fs';
import path from 'node:path';

export const work = process.argv[2];
export const input = (name) => path.join(work, 'inputs', name);

// Converts a mono WAV file of 16-bit integers to floats at 16 kHz.
export function sound(file) {
  const bytes = fs.readFileSync(file);
  const rate = bytes.readUInt32LE(24), at = bytes.indexOf('data') + 8, count = (bytes.length - at) >> 1;
  const out = new Float32Array(Math.floor((count * 16000) / rate));
  for (let i = 0; i < out.length; i++) {
    const x = (i * rate) / 16000, k = Math.min(Math.floor(x), count - 2), part = x - k;
    out[i] = (bytes.readInt16LE(at + 2 * k) * (1 - part) + bytes.readInt16LE(at + 2 * k + 2) * part) / 32768;
  }
  return out;
}

// Runs a case several times in this process, after a warm-up, and prints its result and the minimum times.
export async function measure(times, run) {
  const result = await run();
  let cpu = Infinity, wall = Infinity;
  for (let i = 0; i < times; i++) {
    const before = process.cpuUsage(), start = performance.now();
    await run();
    const used = process.cpuUsage(before);
    cpu = Math.min(cpu, (used.user + used.system) / 1e6);
    wall = Math.min(wall, (performance.now() - start) / 1e3);
  }
  console.log(JSON.stringify({ result, cpu, wall }));
  process.exit(0); // some packages keep worker threads
}
