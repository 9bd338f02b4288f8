// Compares the output of describe.cjs for ONNX Runtime with that for inlay; the exit code is 1 if they differ.
//   node compare.cjs NAME THEIRS OURS
'use strict';
const fs = require('node:fs');
const [name, ...files] = process.argv.slice(2);
const [theirs, ours] = files.map((file) => fs.readFileSync(file, 'utf8').trim().split('\n'));
let same = 0, different = 0, refused = 0;
for (let i = 0; i < Math.max(theirs.length, ours.length); i++) {
  if (theirs[i] === undefined || ours[i] === undefined) throw new Error(`${name}: a line is missing`);
  if (JSON.parse(theirs[i])[1] === null) {
    refused++; // what ONNX Runtime refuses, inlay may run
  } else if (theirs[i] === JSON.stringify(JSON.parse(ours[i]))) {
    same++;
  } else {
    different++;
    console.log(`${name}: differs\n  ${theirs[i]}\n  ${ours[i]}`);
  }
}
console.log(`${name}: ${same} models alike, ${different} different, ${refused} refused by ONNX Runtime`);
process.exit(different > 0 || same < 0.9 * theirs.length ? 1 : 0);
