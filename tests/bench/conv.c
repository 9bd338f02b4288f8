/* bench_conv - times the convolution kernel of the reference on one thread, at sizes of real networks. Not a test. */
#include "kernel_case.h"
#include "operators/gemm/set.h"
#include "operators/operators.h"
#include "operators/tables.h"
#include <stdio.h>
#include <time.h>

static double now(void)
{
    struct timespec timespec;
    clock_gettime(CLOCK_MONOTONIC, &timespec);
    return (double)timespec.tv_sec + 1e-9 * (double)timespec.tv_nsec;
}

struct layer {
    int count; /* number of these layers in ResNet-50; 0 = from another network */
    int64_t channels, size, filters, kernel, stride, pad, group;
};

static double time_layer(const struct layer *layer)
{
    int64_t out = (layer->size + 2 * layer->pad - layer->kernel) / layer->stride + 1;
    int64_t x_dims[] = { 1, layer->channels, layer->size, layer->size },
            w_dims[] = { layer->filters, layer->channels / layer->group, layer->kernel, layer->kernel };
    int64_t y_dims[] = { 1, layer->filters, out, out }, pads[] = { layer->pad, layer->pad, layer->pad, layer->pad },
            strides[] = { layer->stride, layer->stride };
    size_t x_count = (size_t)(layer->channels * layer->size * layer->size),
           y_count = (size_t)(layer->filters * out * out);
    size_t w_count = (size_t)(layer->filters * layer->channels / layer->group * layer->kernel * layer->kernel);
    struct guard guard = guard_alloc(x_count * 4), w = guard_alloc((w_count * 4 + 63) & ~(size_t)63),
                 b = guard_alloc((size_t)layer->filters * 4), y = guard_alloc(y_count * 4);
    static kernel_case layer_case;
    double best = 1e9, spent = 0,
           flops = 2.0 * (double)y_count * (double)(layer->channels / layer->group * layer->kernel * layer->kernel);

    layer_case = (kernel_case){ .op_type = "Conv", .since_version = 11, .provider = &blocked_engine };
    kernel_case_input(&layer_case, INLAY_FLOAT, 4, x_dims, guard.data, false);
    kernel_case_input(&layer_case, INLAY_FLOAT, 4, w_dims, w.data, true);
    kernel_case_input(&layer_case, INLAY_FLOAT, 1, &layer->filters, b.data, false);
    kernel_case_output(&layer_case, INLAY_FLOAT, 4, y_dims, y.data);
    kernel_case_ints(&layer_case, "pads", 4, pads);
    kernel_case_ints(&layer_case, "strides", 2, strides);
    kernel_case_int(&layer_case, "group", layer->group);
    if (kernel_case_prepare(&layer_case, &operators_products) != INLAY_OK)
        printf("%s\n", layer_case.diag.text);
    for (int i = 0; i < 3 || spent < 0.1; i++) {
        double t = now();
        if (kernel_case_run(&layer_case) != INLAY_OK)
            printf("%s\n", layer_case.diag.text);
        t = now() - t;
        spent += t;
        best = t < best ? t : best;
    }
    printf("%2d x  c%-4d %3dx%-3d -> f%-4d k%d s%d g%-4d %8.3f ms %7.1f GFLOP/s\n", layer->count, (int)layer->channels,
           (int)layer->size, (int)layer->size, (int)layer->filters, (int)layer->kernel, (int)layer->stride,
           (int)layer->group, best * 1e3, flops / best * 1e-9);
    kernel_case_deinit(&layer_case);
    guard_free(&guard);
    guard_free(&w);
    guard_free(&b);
    guard_free(&y);
    return best * layer->count;
}

int main(void)
{
    static const struct layer layers[] = {
        { 1, 3, 224, 64, 7, 2, 3, 1 },    { 1, 64, 56, 64, 1, 1, 0, 1 },     { 3, 64, 56, 64, 3, 1, 1, 1 },
        { 4, 64, 56, 256, 1, 1, 0, 1 },   { 2, 256, 56, 64, 1, 1, 0, 1 },    { 1, 256, 56, 128, 1, 1, 0, 1 },
        { 1, 128, 56, 128, 3, 2, 1, 1 },  { 4, 128, 28, 512, 1, 1, 0, 1 },   { 1, 256, 56, 512, 1, 2, 0, 1 },
        { 3, 512, 28, 128, 1, 1, 0, 1 },  { 3, 128, 28, 128, 3, 1, 1, 1 },   { 1, 512, 28, 256, 1, 1, 0, 1 },
        { 1, 256, 28, 256, 3, 2, 1, 1 },  { 6, 256, 14, 1024, 1, 1, 0, 1 },  { 1, 512, 28, 1024, 1, 2, 0, 1 },
        { 5, 1024, 14, 256, 1, 1, 0, 1 }, { 5, 256, 14, 256, 3, 1, 1, 1 },   { 1, 1024, 14, 512, 1, 1, 0, 1 },
        { 1, 512, 14, 512, 3, 2, 1, 1 },  { 3, 512, 7, 2048, 1, 1, 0, 1 },   { 1, 1024, 14, 2048, 1, 2, 0, 1 },
        { 2, 2048, 7, 512, 1, 1, 0, 1 },  { 2, 512, 7, 512, 3, 1, 1, 1 },    { 0, 32, 112, 32, 3, 1, 1, 32 },
        { 0, 96, 112, 96, 3, 2, 1, 96 },  { 0, 144, 56, 144, 3, 1, 1, 144 }, { 0, 384, 14, 384, 3, 1, 1, 384 },
        { 0, 960, 7, 960, 3, 1, 1, 960 }, { 0, 240, 28, 240, 5, 1, 2, 240 }, { 0, 3, 224, 32, 3, 2, 1, 1 },
        { 0, 128, 56, 128, 3, 1, 1, 32 },
    };
    double sum = 0;

    for (size_t i = 0; i < sizeof layers / sizeof layers[0]; i++)
        sum += time_layer(&layers[i]);
    printf("all convolutions of ResNet-50: %.1f ms\n", sum * 1e3);
    return 0;
}
