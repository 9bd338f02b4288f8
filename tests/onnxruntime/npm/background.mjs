// Background removal: the mask, as 16 x 12 means and as its total mean.
// npm: {"dependencies": {"@imgly/background-removal-node": "1.4.5"}, "overrides": {"sharp": "0.33.5"}}
import { pathToFileURL } from 'node:url';
import { removeBackground } from '@imgly/background-removal-node';
import sharp from 'sharp';
import { input, measure } from './shared.mjs';

await measure(1, async () => {
  const made = await removeBackground(pathToFileURL(input('figure.png')).href);
  const { data, info } = await sharp(Buffer.from(await made.arrayBuffer())).raw().toBuffer({ resolveWithObject: true });
  const sums = new Float64Array(16 * 12);
  let covered = 0;
  for (let y = 0; y < info.height; y++)
    for (let x = 0; x < info.width; x++) {
      const alpha = data[(y * info.width + x) * info.channels + 3] / 255;
      sums[Math.floor((y * 12) / info.height) * 16 + Math.floor((x * 16) / info.width)] += alpha;
      covered += alpha;
    }
  const share = covered / (info.width * info.height);
  const means = Array.from(sums, (s) => 1e-9 + (s * 192) / (info.width * info.height));
  return { values: [info.width, info.height, share, means], bound: 0.02, said: `${(100 * share).toFixed(1)} % kept` };
});
