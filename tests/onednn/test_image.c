/* Operators of image models on onednn beside the reference: Resize in every layout that a region may bring. */
#include "beside.h"

static void resize(void **state)
{
    /* What comes before decides the layout: nothing (row-major), a convolution (channels last, or blocks where the
     * channels do not fill them), a Winograd convolution (blocks), a concatenation. */
    static const char *const before[] = {
        "x : 2,3,9,7\na = Neg(x)\n",
        "x : 2,3,9,7\nw = [20,3,3,3]\na = Conv(x, w) pads=1,1,1,1\n",
        "x : 1,32,24,24\nw = [64,32,3,3]\nk = Conv(x, w) pads=1,1,1,1\na = Relu(k)\n",
        "x : 2,16,6,5\nw = [16,16,3,3]\nk = Conv(x, w) pads=1,1,1,1\na = Concat(k, x) axis=1\n",
        "x : 2,5,6\nw = [24,5,3]\na = Conv(x, w) pads=1,1\n",
        "x : 1,4,5,6,3\nw = [17,4,3,3,3]\na = Conv(x, w) pads=1,1,1,1,1,1\n",
    };
    static const char *const modes[] = { "nearest", "linear", "cubic" };
    static const char *const places[] = { "half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric" };
    static const uint32_t ranks[] = { 4, 4, 4, 4, 3, 5 };
    static const char *const factors[] = { "2.0", "1.7", "0.6", "1.0", "3.0" };
    char script[512], ones[64];
    uint32_t n = 0;

    (void)state;
    for (uint32_t b = 0; b < 6; b++) {
        for (uint32_t m = 0; m < 3; m++) {
            for (uint32_t p = 0; p < 4; p++, n++) {
                const beside_row row = { "Resize", script };
                uint32_t at = (uint32_t)snprintf(ones, sizeof ones, "1,1");

                for (uint32_t d = 2; d < ranks[b]; d++)
                    at += (uint32_t)snprintf(ones + at, sizeof ones - at, ",%s", factors[(n + d) % (ranks[b] == 3 ? 3 : 5)]);
                (void)snprintf(script, sizeof script,
                               "%ss = [%u] %s\ny = Resize(a, _, s) mode=%s coordinate_transformation_mode=%s\nz = "
                               "Relu(y)\n-> z, y",
                               before[b], ranks[b], ones, modes[m], places[p]);
                beside_expect(&row, 13, NULL);
            }
        }
    }
}

static void resize_otherwise(void **state)
{
    static const beside_row rows[] = {
        { "Resize", "x : 2,3,4,5\ns = i[4] 2,3,9,4\ny = Resize(x, _, _, s) mode=linear\n-> y" },
        { "Resize", "x : 2,3,4,5\ns = i[4] 2,7,4,4\ny = Resize(x, _, _, s) mode=linear\n-> y" }, /* channels, too */
        { "Resize", "x : N,17,H,W\nw = [17,17,1,1]\na = Conv(x, w)\ns = [4] 1,1,2,2\ny = Resize(a, _, s) "
                    "mode=linear\nz = Conv(y, w)\n-> z" },
        { "Resize", "x : 1,8,1,1\nw = [16,8,1,1]\na = Conv(x, w)\ns = i[4] 1,16,5,6\ny = Resize(a, _, _, s) "
                    "mode=linear\n-> y" },
        { "Resize", "x : 1,16,4,4\nw = [16,16,3,3]\na = Conv(x, w) pads=1,1,1,1\ns = i[4] 1,16,4,4\n"
                    "y = Resize(a, _, _, s) mode=linear\nz = Add(y, x)\n-> z" }, /* nothing changes */
        { "Resize", "x : 1,16,8,8\nw = [24,16,3,3]\na = Conv(x, w) pads=1,1,1,1\ns = i[4] 1,24,3,20\n"
                    "y = Resize(a, _, _, s) mode=cubic antialias=1 exclude_outside=1\n-> y" },
        { "Resize", "x : 1,16,8,8\nw = [24,16,3,3]\na = Conv(x, w) pads=1,1,1,1\ns = i[2] 3,20\n"
                    "y = Resize(a, _, _, s) mode=linear antialias=1 axes=3,2\n-> y" },
        { "Resize", "x : 1,16,8,8\ns = [1] 1.5\ny = Resize(x, _, s) mode=linear axes=2,\n-> y" },
        /* Left to others. */
        { NULL, "x : 1,16,8,8\ns = i[2] 3,20\ny = Resize(x, _, _, s) mode=linear keep_aspect_ratio_policy=not_larger "
                "axes=2,3\n-> y" },
    };

    (void)state;
    for (uint32_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        beside_expect(&rows[i], 19, NULL);
    beside_expect(&(beside_row){ "Upsample", "x : 1,16,3,4\nw = [16,16,3,3]\na = Conv(x, w) pads=1,1,1,1\n"
                                             "s = [4] 1,1,2,3\ny = Upsample(a, s) mode=linear\n-> y" },
                  9, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resize),
        cmocka_unit_test(resize_otherwise),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
