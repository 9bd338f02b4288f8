"""Times the layers and networks of networks.py with PyTorch on the same GPU, one line NAME MS each.

ResNet-50 and the encoders have random weights: the same shapes, not the same numbers. Prints nothing without CUDA.
"""
import sys
import time

import torch
import torch.nn.functional as fn


def median_ms(run, repeats=1, seconds=0.4):
    for _ in range(3):
        run()
    torch.cuda.synchronize()
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 5:
        start = time.perf_counter()
        run()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return sorted(times)[len(times) // 2] * 1e3 / repeats


def product(dtype, m, k, n, repeats):
    x = torch.randn(m, k, device='cuda').to(dtype)
    there, back = [torch.randn(s, device='cuda').to(dtype) / 64 for s in ((k, n), (n, k))]

    def run():
        y = x
        for _ in range(repeats // 2):
            y = (y @ there) @ back
    return median_ms(run, repeats)


def convolution(dtype, channels, size, kernel, repeats):
    x = torch.randn(1, channels, size, size, device='cuda').to(dtype)
    w = torch.randn(channels, channels, kernel, kernel, device='cuda').to(dtype) / 48
    if dtype == torch.float16:
        x, w = [t.to(memory_format=torch.channels_last) for t in (x, w)]

    def run():
        y = x
        for _ in range(repeats):
            y = fn.conv2d(y, w, padding=kernel // 2)
    return median_ms(run, repeats)


def graph_ms(model, *inputs):
    """A model replayed as a CUDA graph, without Python's time."""
    with torch.no_grad():
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for _ in range(3):
                model(*inputs)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            model(*inputs)
    return median_ms(graph.replay)


def encoder(dtype, tokens, batch=1, first=False):
    layer = torch.nn.TransformerEncoderLayer(768, 12, 3072, activation='gelu', batch_first=True, norm_first=first)
    model = torch.nn.TransformerEncoder(layer, 12, enable_nested_tensor=False).to('cuda', dtype).eval()
    return graph_ms(model, torch.randn(batch, tokens, 768, device='cuda', dtype=dtype))


def resnet50(dtype, batch=1):
    import torchvision
    model = torchvision.models.resnet50().to('cuda', dtype).eval()
    x = torch.randn(batch, 3, 224, 224, device='cuda', dtype=dtype)
    if dtype == torch.float16:
        model, x = model.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    return graph_ms(model, x)


def main():
    if not torch.cuda.is_available():
        sys.exit('no CUDA device')
    torch.backends.cudnn.benchmark = True
    f, h = torch.float32, torch.float16
    rows = [('matmul_f32_1024', lambda: product(f, 1024, 1024, 1024, 16)),
            ('matmul_f32_4096', lambda: product(f, 4096, 4096, 4096, 4)),
            ('matmul_f16_1024', lambda: product(h, 1024, 1024, 1024, 16)),
            ('matmul_f16_4096', lambda: product(h, 4096, 4096, 4096, 4)),
            ('matmul_f32_row', lambda: product(f, 1, 4096, 4096, 16)),
            ('matmul_f16_row', lambda: product(h, 1, 4096, 4096, 16)),
            ('conv1_f32', lambda: convolution(f, 256, 56, 1, 16)),
            ('conv3_f32', lambda: convolution(f, 256, 56, 3, 16)),
            ('conv1_f16', lambda: convolution(h, 256, 56, 1, 16)),
            ('conv3_f16', lambda: convolution(h, 256, 56, 3, 16)),
            ('bert_f32', lambda: encoder(f, 128)), ('bert_f16', lambda: encoder(h, 128)),
            ('bert_f16_batch8', lambda: encoder(h, 128, 8)),
            ('vit_f32', lambda: encoder(f, 196, first=True)), ('vit_f16', lambda: encoder(h, 196, first=True)),
            ('resnet50_f32', lambda: resnet50(f)), ('resnet50_f16', lambda: resnet50(h)),
            ('resnet50_f16_batch16', lambda: resnet50(h, 16))]
    for tf32 in (False, True):
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
        for name, run in rows:
            if tf32 and 'f16' in name:
                continue
            try:
                print(name + ('_tf32' if tf32 else ''), f'{run():.4f}', flush=True)
            except RuntimeError as error:
                print(f'{name}: {error}', file=sys.stderr)


if __name__ == '__main__':
    main()
