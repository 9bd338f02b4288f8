// Text recognition of a page.
// npm: {"dependencies": {"@gutenye/ocr-node": "1.4.8"}}
import Ocr from '@gutenye/ocr-node';
import { input, measure } from './shared.mjs';

const ocr = await Ocr.create();
await measure(3, async () => {
  const lines = await ocr.detect(input('page.png'));
  return { values: lines.map((l) => [l.text, l.mean]), bound: 1e-3, said: `${lines.length} lines, '${lines[0].text}'` };
});
