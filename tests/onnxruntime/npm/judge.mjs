// Compares the results of a case with those of ONNX Runtime: judge.mjs WORK CASE ROUNDS theirs SIDE...
import fs from 'node:fs';
import path from 'node:path';

const [work, name, rounds, ...sides] = process.argv.slice(2);
const read = (side, i) => JSON.parse(fs.readFileSync(path.join(work, `${name}.${side}.${i + 1}.json`), 'utf8').trim().split('\n').pop());
const runs = Object.fromEntries(sides.map((side) => [side, Array.from({ length: Number(rounds) }, (_, i) => read(side, i))]));
const least = (what) => sides.map((side) => Math.min(...runs[side].map((run) => run[what])));

// Strings and integers must be equal; floats may differ by the bound of the case.
function distance(a, b, where) {
  if (typeof a === 'number' && typeof b === 'number' && !(Number.isInteger(a) && Number.isInteger(b))) return Math.abs(a - b);
  if (Array.isArray(a) && Array.isArray(b) && a.length === b.length)
    return a.reduce((most, x, i) => Math.max(most, distance(x, b[i], `${where}[${i}]`)), 0);
  if (a === b) return 0;
  throw new Error(`${name}: ${where} is ${JSON.stringify(a)} with ONNX Runtime and ${JSON.stringify(b)} with inlay`);
}

let wrong = 0;
const theirs = runs.theirs[0].result;
const parts = sides.slice(1).map((side) => {
  let most = 0;
  for (const { result } of runs[side]) {
    try {
      most = Math.max(most, distance(theirs.values, result.values, 'values'));
    } catch (error) {
      console.log(`${side}: ${error.message}`);
      wrong++;
    }
  }
  if (!(most <= theirs.bound)) wrong++;
  return `${side} differs by ${most.toExponential(1)}`;
});
const times = (what) => least(what).map((seconds) => seconds.toFixed(3)).join(' -> ');
console.log(`${wrong ? 'FAIL' : 'ok'} ${name}: ${theirs.said}; ${parts.join(', ')} (at most ${theirs.bound}); ` +
  `CPU ${times('cpu')} s, wall ${times('wall')} s`);
process.exit(wrong ? 1 : 0);
