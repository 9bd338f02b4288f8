/* The provider of samples/provider_xnnpack, compared with provider reference: generated convolutional networks of odd
 * sizes, batches of changing size, threads, fork, and sizes that it declines. */
#include "rig.h"
#include "random.h"
#include <math.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SEEDS = 40, MOST_STEPS = 9, MOST_ELEMENTS = 1 << 16, MOST_OUTPUTS = 4 };

/* A network that is being written. */
struct net {
    struct wire wire;
    uint64_t random;
    int64_t channels, height, width;
    uint32_t values; /* number of names "v0", "v1" ... */
    char current[16], outputs[MOST_OUTPUTS][16];
    uint32_t output_count;
};

/* Returns a number in [0, limit). */
static int64_t pick(struct net *net, int64_t limit)
{
    return (int64_t)random_below(&net->random, (uint64_t)limit);
}

static float number(struct net *net)
{
    return random_signed(&net->random);
}

static void new_name(struct net *net, char name[16])
{
    (void)snprintf(name, 16, "v%u", net->values++);
}

/* Writes a float initializer of random numbers, scaled. */
static void constant(struct net *net, char name[16], uint32_t rank, const int64_t *dims, float scale)
{
    wire_mark mark = wire_begin(&net->wire, MW_INITIALIZER);
    int64_t count = 1;

    new_name(net, name);
    mw_tensor_head(&net->wire, name, INLAY_FLOAT, rank, dims);
    for (uint32_t i = 0; i < rank; i++)
        count *= dims[i];
    for (int64_t i = 0; i < count; i++)
        wire_float(&net->wire, 4, scale * number(net));
    wire_end(&net->wire, mark);
}

/* Begins a node whose output becomes the current value; others are further inputs, or NULL. */
static wire_mark begin(struct net *net, const char *op, const char *others)
{
    char inputs[64], output[16];
    wire_mark mark;

    (void)snprintf(inputs, sizeof inputs, others != NULL ? "%s,%s" : "%s", net->current, others);
    new_name(net, output);
    mark = mw_node_begin(&net->wire, op, inputs, output);
    (void)strcpy(net->current, output);
    return mark;
}

static void simple(struct net *net, const char *op, const char *others)
{
    wire_mark mark = begin(net, op, others);

    wire_end(&net->wire, mark);
}

static void text_attr(struct net *net, const char *name, const char *text)
{
    wire_mark mark = mw_attr_begin(&net->wire, name, 3);

    wire_text(&net->wire, 4, text);
    wire_end(&net->wire, mark);
}

static void activation(struct net *net)
{
    static const char *const names[] = { "Relu", "HardSwish", "Sigmoid" };
    char low[16], high[16], both[40];

    if (pick(net, 3) > 0) {
        simple(net, names[pick(net, 3)], NULL);
        return;
    }
    new_name(net, low);
    new_name(net, high);
    mw_scalar(&net->wire, low, INLAY_FLOAT, -0.25);
    mw_scalar(&net->wire, high, INLAY_FLOAT, 0.75);
    (void)snprintf(both, sizeof both, "%s,%s", low, high);
    simple(net, "Clip", both);
}

static void convolution(struct net *net, int64_t outputs, int64_t group)
{
    static const char *const automatic[] = { "SAME_UPPER", "SAME_LOWER", "VALID" };
    const int64_t dims[] = { outputs, net->channels / group, 1 + pick(net, 4), 1 + pick(net, 4) };
    const int64_t strides[] = { 1 + pick(net, 2), 1 + pick(net, 3) },
                  dilations[] = { 1 + pick(net, 2), 1 + pick(net, 2) };
    const bool is_automatic = pick(net, 3) == 0;
    int64_t pads[4], sizes[] = { net->height, net->width };
    const char *mode = automatic[pick(net, 3)];
    char weights[16], bias[16], both[40];
    wire_mark mark;

    for (int i = 0; i < 4; i++)
        pads[i] = pick(net, 3);
    for (int i = 0; i < 2; i++) {
        const int64_t extent = (dims[2 + i] - 1) * dilations[i] + 1;

        if (is_automatic && mode[0] == 'S')
            sizes[i] = (sizes[i] + strides[i] - 1) / strides[i];
        else
            sizes[i] = (sizes[i] + (is_automatic ? 0 : pads[i] + pads[i + 2]) - extent + strides[i]) / strides[i];
        if (sizes[i] < 1)
            return;
    }
    constant(net, weights, 4, dims, 1.0f / sqrtf((float)(dims[1] * dims[2] * dims[3])));
    constant(net, bias, 1, dims, 0.5f);
    (void)snprintf(both, sizeof both, pick(net, 4) > 0 ? "%s,%s" : "%s", weights, bias);
    mark = begin(net, "Conv", both);
    mw_attr_ints(&net->wire, "strides", 2, strides);
    mw_attr_ints(&net->wire, "dilations", 2, dilations);
    mw_attr_int(&net->wire, "group", group);
    if (is_automatic)
        text_attr(net, "auto_pad", mode);
    else
        mw_attr_ints(&net->wire, "pads", 4, pads);
    wire_end(&net->wire, mark);
    net->channels = outputs;
    net->height = sizes[0];
    net->width = sizes[1];
    if (pick(net, 2) == 0)
        activation(net);
}

static void pool(struct net *net)
{
    const bool most = pick(net, 2) == 0, ceil = pick(net, 2) == 0;
    const int64_t kernel[] = { 2 + pick(net, 2), 2 + pick(net, 2) }, strides[] = { 1 + pick(net, 2), 1 + pick(net, 2) };
    const int64_t pads[] = { pick(net, 2), pick(net, 2), pick(net, 2), pick(net, 2) };
    int64_t sizes[] = { net->height, net->width };
    wire_mark mark;

    for (int i = 0; i < 2; i++) {
        const int64_t rest = sizes[i] + pads[i] + pads[i + 2] - kernel[i];

        if (rest < 0)
            return;
        /* a window that begins after the image and its first padding does not count */
        sizes[i] = (rest + (ceil ? strides[i] - 1 : 0)) / strides[i] + 1;
        if (ceil && (sizes[i] - 1) * strides[i] >= (i == 0 ? net->height : net->width) + pads[i])
            sizes[i]--;
    }
    mark = begin(net, most ? "MaxPool" : "AveragePool", NULL);
    mw_attr_ints(&net->wire, "kernel_shape", 2, kernel);
    mw_attr_ints(&net->wire, "strides", 2, strides);
    mw_attr_ints(&net->wire, "pads", 4, pads);
    mw_attr_int(&net->wire, "ceil_mode", ceil);
    wire_end(&net->wire, mark);
    net->height = sizes[0];
    net->width = sizes[1];
}

/* Add, Sub or Mul with a constant that is broadcast. */
static void binary(struct net *net)
{
    static const char *const names[] = { "Add", "Sub", "Mul" };
    const int64_t shapes[][4] = { { 1, net->channels, 1, 1 }, { 1, 1, net->height, net->width }, { 1, 1, 1, 1 } };
    const uint32_t rank = 1 + (uint32_t)pick(net, 4);
    const char *name = names[pick(net, 3)];
    char operand[16], inputs[40], output[16];

    constant(net, operand, rank, shapes[pick(net, 3)] + 4 - rank, 1);
    if (pick(net, 2) == 0) {
        simple(net, name, operand);
        return;
    }
    (void)snprintf(inputs, sizeof inputs, "%s,%s", operand, net->current);
    new_name(net, output);
    mw_node(&net->wire, name, inputs, output);
    (void)strcpy(net->current, output);
}

/* x + act(x), or x * sigmoid(conv(mean(x))) */
static void branch(struct net *net)
{
    const int64_t dims[] = { net->channels, net->channels, 1, 1 };
    char before[16], weights[16];

    (void)strcpy(before, net->current);
    if (pick(net, 2) == 0) {
        activation(net);
        simple(net, "Add", before);
        return;
    }
    simple(net, "GlobalAveragePool", NULL);
    constant(net, weights, 4, dims, 1.0f / sqrtf((float)net->channels));
    simple(net, "Conv", weights);
    simple(net, "Sigmoid", NULL);
    simple(net, "Mul", before);
}

static void step(struct net *net)
{
    static const int64_t sizes[] = { 1, 3, 7, 8, 16, 17, 33 };

    switch (pick(net, 8)) {
    case 0:
    case 1:
        convolution(net, sizes[pick(net, 7)], 1);
        break;
    case 2:
        convolution(net, net->channels * (1 + pick(net, 2)), net->channels);
        break;
    case 3:
        convolution(net, 6, net->channels % 2 == 0 ? 2 : 1);
        break;
    case 4:
        pool(net);
        break;
    case 5:
        binary(net);
        break;
    case 6:
        branch(net);
        break;
    default:
        activation(net);
        break;
    }
}

static void classifier(struct net *net)
{
    const bool rows = pick(net, 2) == 0;
    const int64_t outputs = 1 + pick(net, 40);
    const int64_t dims[] = { rows ? outputs : net->channels, rows ? net->channels : outputs };
    char weights[16], bias[16], both[40];
    wire_mark mark;

    simple(net, "GlobalAveragePool", NULL);
    simple(net, "Flatten", NULL);
    constant(net, weights, 2, dims, 1.0f / sqrtf((float)net->channels));
    constant(net, bias, 1, &outputs, 1);
    (void)snprintf(both, sizeof both, "%s,%s", weights, bias);
    mark = begin(net, "Gemm", both);
    mw_attr_int(&net->wire, "transB", rows);
    wire_end(&net->wire, mark);
    if (pick(net, 2) == 0)
        simple(net, "Softmax", NULL);
}

static void add_output(struct net *net)
{
    for (uint32_t i = 0; i < net->output_count; i++)
        if (strcmp(net->outputs[i], net->current) == 0)
            return;
    if (net->output_count < MOST_OUTPUTS)
        (void)strcpy(net->outputs[net->output_count++], net->current);
}

/* Writes the network of a seed. Its input "x" is float [N, channels, height, width]. */
static struct net write_net(uint64_t seed)
{
    struct net net = { .random = seed * 977 + 12345 };
    const wire_mark graph = mw_begin(&net.wire, 8, 17);
    char dims[48];

    net.channels = 1 + pick(&net, 5);
    net.height = 1 + pick(&net, 21);
    net.width = 1 + pick(&net, 21);
    (void)snprintf(dims, sizeof dims, "N,%lld,%lld,%lld", (long long)net.channels, (long long)net.height,
                   (long long)net.width);
    mw_value(&net.wire, MW_INPUT, "x", INLAY_FLOAT, dims);
    (void)strcpy(net.current, "x");
    simple(&net, "Relu", NULL); /* outputs are never the input */
    for (int64_t steps = 2 + pick(&net, MOST_STEPS); steps > 0; steps--) {
        step(&net);
        if (pick(&net, 5) == 0 && net.output_count + 1 < MOST_OUTPUTS)
            add_output(&net);
    }
    if (pick(&net, 2) == 0)
        classifier(&net);
    add_output(&net);
    for (uint32_t i = 0; i < net.output_count; i++)
        mw_value(&net.wire, MW_OUTPUT, net.outputs[i], INLAY_FLOAT, NULL);
    wire_end(&net.wire, graph);
    return net;
}

static const char *const on_reference[] = { "providers", "reference", NULL };
static const char *const on_xnnpack[] = { "plugin_dirs", XNNPACK_PLUGIN, "providers", "xnnpack", NULL };

static struct rig open_net(uint64_t seed, const char *const *options)
{
    struct net net = write_net(seed);

    return rig_open(&net.wire, options);
}

/* Runs the network with a batch of n images of random elements. */
static void run_batch(struct rig *rig, uint64_t seed, int64_t n)
{
    struct net net = write_net(seed), first = { .random = seed * 977 + 12345 };
    int64_t dims[] = { n, 1 + pick(&first, 5), 1 + pick(&first, 21), 1 + pick(&first, 21) };
    inlay_value *x = NULL;

    assert_int_equal(inlay_value_create(INLAY_FLOAT, 4, dims, &x, NULL), INLAY_OK);
    net.random = seed + (uint64_t)n;
    for (int64_t i = 0; i < inlay_value_count(x); i++)
        ((float *)inlay_value_data(x))[i] = 2 * number(&net);
    wire_deinit(&net.wire);
    rig_bind(rig, 0, x);
    rig_run(rig);
}

static void compare(const struct rig *got, const struct rig *want, uint64_t seed, int64_t n)
{
    for (uint32_t o = 0; o < inlay_session_output_count(want->session); o++) {
        const inlay_value *left = inlay_context_output(got->context, o),
                          *right = inlay_context_output(want->context, o);
        const float *x = inlay_value_data(left), *y = inlay_value_data(right);

        assert_int_equal(inlay_value_rank(left), inlay_value_rank(right));
        assert_int_equal(inlay_value_count(left), inlay_value_count(right));
        for (int64_t i = 0; i < inlay_value_count(right); i++)
            if (!(fabsf(x[i] - y[i]) <= 2e-5f + 1e-4f * fabsf(y[i])))
                fail_msg("seed %llu, batch %lld, output %u, element %lld: %g, reference %g", (unsigned long long)seed,
                         (long long)n, o, (long long)i, (double)x[i], (double)y[i]);
    }
}

/* Each network runs entirely on XNNPACK, at several batch sizes, and again at the first one. */
static void generated_networks(void **state)
{
    static const int64_t batches[] = { 2, 1, 3, 2 };

    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct rig want = open_net(seed, on_reference), got = open_net(seed, on_xnnpack);

        for (size_t i = 0; i < sizeof batches / sizeof batches[0]; i++) {
            run_batch(&want, seed, batches[i]);
            run_batch(&got, seed, batches[i]);
            compare(&got, &want, seed, batches[i]);
        }
        rig_close(&want);
        rig_close(&got);
    }
}

/* A batch of no images is declined when it is known, and runs on the other provider; others are not affected. */
static void empty_batch(void **state)
{
    static const char *const both[] = { "plugin_dirs", XNNPACK_PLUGIN, "providers", "xnnpack,reference",
                                        "policy",      "priority",     NULL };
    struct rig want = open_net(3, on_reference), got = open_net(3, both);

    (void)state;
    for (int64_t n = 2; n >= 0; n -= 2) {
        run_batch(&want, 3, n);
        run_batch(&got, 3, n);
        compare(&got, &want, 3, n);
    }
    rig_close(&want);
    rig_close(&got);
}

/* With threads of its own the provider also runs in a child after fork(), which has none of them. */
static void threads_and_fork(void **state)
{
    static const char *const threads[] = { "plugin_dirs", XNNPACK_PLUGIN,  "providers", "xnnpack", "xnnpack.threads",
                                           "0",           "intra_threads", "2",         NULL };
    struct rig want = open_net(5, on_reference), got = open_net(5, threads);
    pid_t child;
    int status;

    (void)state;
    run_batch(&want, 5, 3);
    run_batch(&got, 5, 3);
    compare(&got, &want, 5, 3);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)alarm(60);
        run_batch(&got, 5, 3);
        compare(&got, &want, 5, 3);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    run_batch(&got, 5, 3);
    compare(&got, &want, 5, 3);
    rig_close(&want);
    rig_close(&got);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(generated_networks), cmocka_unit_test(empty_batch),
                                        cmocka_unit_test(threads_and_fork) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
