/* Grouped convolutions in one, two and three dimensions, compared with the reference. */
#include "compare.h"

/* Channel counts around a vector and around a block; windows with every stride, dilation and padding. */
static void one_dimension(void **state)
{
    static const char *const windows[] = { "pads=1,1", "pads=0,3 strides=2,", "pads=4,2 dilations=2,",
                                           "auto_pad=SAME_UPPER", "strides=3, dilations=3, pads=2,0" };
    /* groups, channels of a group: in, out; kernel */
    static const int shapes[][4] = { { 7, 1, 1, 3 }, { 16, 1, 1, 5 },   { 70, 1, 1, 23 },  { 128, 1, 1, 2 },
                                     { 6, 1, 2, 3 }, { 3, 4, 5, 3 },    { 2, 16, 16, 17 }, { 4, 8, 40, 4 },
                                     { 2, 3, 1, 1 }, { 16, 16, 16, 8 }, { 6, 4, 4, 3 },    { 5, 8, 8, 4 } };
    char script[300];

    (void)state;
    for (size_t shape = 0; shape < sizeof shapes / sizeof *shapes; shape++) {
        for (size_t window = 0; window < sizeof windows / sizeof *windows; window++) {
            const int *n = shapes[shape];

            (void)snprintf(script, sizeof script,
                           "x : 2,%d,95\nw = [%d,%d,%d]\nb = [%d]\nr = Neg(x)\nc = Conv(r, w, b) %s group=%d\n"
                           "y = Sigmoid(c)\n-> y, c",
                           n[0] * n[1], n[0] * n[2], n[1], n[3], n[0] * n[2], windows[window], n[0]);
            compare_expect(&(compare_case){ "Conv", script }, 17, NULL);
        }
    }
}

static void more_dimensions(void **state)
{
    static const compare_case rows[] = {
        { "Conv", "x : 2,40,5,6,7\nw = [40,1,3,3,3]\nb = [40]\ny = Conv(x, w, b) pads=1,1,1,1,1,1 group=40\n-> y" },
        { "Conv", "x : 1,96,4,9,8\nw = [96,1,3,2,3]\ny = Conv(x, w) pads=1,0,1,0,1,2 strides=1,2,2 group=96\n-> y" },
        { "Conv", "x : 1,12,6,9,8\nw = [18,4,2,3,3]\nb = [18]\nc = Conv(x, w, b) dilations=2,1,2 group=3\n"
                  "y = Relu(c)\n-> y" },
        { "Conv", "x : 1,20,17,23\nw = [20,1,3,3]\nb = [20]\nc = Conv(x, w, b) dilations=2,3 pads=2,3,2,3 group=20\n"
                  "y = Add(c, x)\n-> y" },
        { "Conv", "x : 3,12,17,9\nw = [30,2,3,5]\nc = Conv(x, w) strides=2,1 pads=1,2,1,2 group=6\ny = Tanh(c)\n-> y" },
        { "Conv", "x : 1,8,9,9\nw = [24,1,7,7]\nb = [24]\ny = Conv(x, w, b) pads=3,3,3,3 group=8\n-> y" },
        { "Conv", "x : N,24,50\nw = [24,1,9]\nv = [48,24,1]\nc = Conv(x, w) pads=4,4 group=24\nr = Relu(c)\n"
                  "y = Conv(r, v)\n-> y" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        compare_expect(&rows[i], 17, NULL);
}

/* Groups of 2 to 32 channels, as many in as out, whose number leaves the last vector full, or half empty; images from
 * one pixel to more than a block of pixels, whose windows reach past every side. */
static void few_channels(void **state)
{
    static const int groups[][2] = { { 3, 2 }, { 17, 2 }, { 4, 4 },   { 9, 4 }, { 2, 8 },
                                     { 5, 8 }, { 3, 16 }, { 19, 16 }, { 3, 32 } };
    static const int images[][2] = { { 1, 1 }, { 7, 2 }, { 9, 8 }, { 14, 19 } };
    static const char *const windows[] = {
        "x : 2,%d,%d,%d\nw = [%d,%d,3,3]\nb = [%d]\nc = Conv(x, w, b) pads=1,1,1,1 group=%d\ny = Relu(c)\n-> y",
        "x : 1,%d,%d,%d\nw = [%d,%d,3,3]\nb = [%d]\nc = Conv(x, w, b) pads=2,1,1,2 strides=2,2 group=%d\n"
        "y = Sigmoid(c)\n-> y, c",
        "x : 1,%d,%d,%d\nw = [%d,%d,3,3]\nb = [%d]\nc = Conv(x, w, b) pads=1,1,1,1 group=%d\ny = Add(c, x)\n-> y",
        "x : 1,%d,%d,%d\nw = [%d,%d,1,1]\nb = [%d]\nc = Conv(x, w, b) group=%d\ny = Clip(c)\n-> y",
        "x : 1,%d,%d,%d\nw = [%d,%d,2,5]\nb = [%d]\ny = Conv(x, w, b) pads=1,4,0,4 strides=1,3 dilations=1,2 group=%d\n"
        "-> y",
        "x : 1,%d,%d,%d\nw = [%d,%d,5,3]\nb = [%d]\ny = Conv(x, w, b) pads=2,2,2,2 dilations=1,2 group=%d\n-> y",
    };
    char script[300];

    (void)state;
    for (size_t shape = 0; shape < sizeof groups / sizeof *groups; shape++) {
        for (size_t window = 0; window < sizeof windows / sizeof *windows; window++) {
            for (size_t image = 0; image < sizeof images / sizeof *images; image++) {
                const int depth = groups[shape][1], channels = groups[shape][0] * depth;

                (void)snprintf(script, sizeof script, windows[window], channels, images[image][0], images[image][1],
                               channels, depth, channels, groups[shape][0]);
                compare_expect(&(compare_case){ "Conv", script }, 17, NULL);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(few_channels),
        cmocka_unit_test(one_dimension),
        cmocka_unit_test(more_dimensions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
