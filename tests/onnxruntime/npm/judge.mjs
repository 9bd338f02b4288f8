// Compares the results of a case with both libraries: judge.mjs WORK CASE ROUNDS
import fs from 'node:fs';
import path from 'node:path';

const [work, name, rounds] = process.argv.slice(2);
const read = (side, i) => JSON.parse(fs.readFileSync(path.join(work, `${name}.${side}.${i + 1}.json`), 'utf8').trim().split('\n').pop());
const sides = ['theirs', 'ours'].map((side) => Array.from({ length: Number(rounds) }, (_, i) => read(side, i)));
const least = (side, what) => Math.min(...side.map((r) => r[what]));

// Strings and integers must be equal; floats may differ by the bound of the case.
function distance(a, b, where) {
  if (typeof a === 'number' && typeof b === 'number' && !(Number.isInteger(a) && Number.isInteger(b))) return Math.abs(a - b);
  if (Array.isArray(a) && Array.isArray(b) && a.length === b.length)
    return a.reduce((most, x, i) => Math.max(most, distance(x, b[i], `${where}[${i}]`)), 0);
  if (a === b) return 0;
  throw new Error(`${name}: ${where} is ${JSON.stringify(a)} with ONNX Runtime and ${JSON.stringify(b)} with inlay`);
}

let wrong = 0, most = 0;
const theirs = sides[0][0].result;
for (const { result } of sides[1]) {
  try {
    most = Math.max(most, distance(theirs.values, result.values, 'values'));
  } catch (error) {
    console.log(error.message);
    wrong++;
  }
}
if (most > theirs.bound) wrong++;
const [cpu, wall] = ['cpu', 'wall'].map((what) => [least(sides[0], what), least(sides[1], what)]);
const pair = ([a, b]) => `${a.toFixed(3)} -> ${b.toFixed(3)} s (${(a / b).toFixed(2)})`;
console.log(`${wrong ? 'FAIL' : 'ok'} ${name}: ${theirs.said}; differs by ${most.toExponential(1)} (at most ${theirs.bound}); ` +
  `CPU ${pair(cpu)}, wall ${pair(wall)}`);
process.exit(wrong ? 1 : 0);
