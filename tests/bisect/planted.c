/* A correct provider except for the fault that its options plant, for `inlay bisect` and `inlay lock` to find.
 *
 *     --option planted.fault=KIND --option planted.at=VALUE     in the node that computes VALUE
 *
 * KIND element: the last element is 1 too large; nan: the last element is NaN; shape: as element, but only if the
 * tensor has 40 elements; fused: as element, but only if the node runs in a chain with others; little: the last element
 * is too large by 1e-4 of itself; rounding: by 1e-6 of itself; offer: the provider does not take the node.
 *
 *     --option planted.hold=MIB --option planted.warn=TEXT     the provider holds memory; logs a warning when it opens
 *     --option planted.slow=PERCENT                            each node takes that much longer */
#include "inlay/kit.h"
#include <math.h>
#include <stdlib.h>
#include <time.h>

struct settings {
    char fault[16], at[64];
    int64_t slow; /* percent */
    void *held;
};

struct state {
    char op;    /* of "+*-r|" */
    char fault; /* 0 = none, otherwise the first letter of its kind */
    int64_t slow;
};

static float apply(char op, float a, float b)
{
    switch (op) {
    case '+':
        return a + b;
    case '*':
        return a * b;
    case '-':
        return -a;
    case 'r':
        return a < 0 ? 0 : a;
    default:
        return fabsf(a);
    }
}

static inlay_status prepare(const kit_node *node, void **out, inlay_diag *diag)
{
    const struct settings *set = node->provider;
    const char *op = node->info->op_type.data;
    struct state *state = calloc(1, sizeof *state);

    *out = state;
    if (state == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory");
    state->op = op[0] == 'M' ? '*' : op[0] == 'N' ? '-' : op[0] == 'R' ? 'r' : op[1] == 'd' ? '+' : '|';
    state->fault = strcmp(kit_output(node, 0)->name.data, set->at) == 0 ? set->fault[0] : '\0';
    state->slow = set->slow;
    return INLAY_OK;
}

/* Makes the last element wrong. */
static void plant_fault(float *out, int64_t n, char fault)
{
    if (n > 0 && (fault == 'e' || (fault == 's' && n == 40)))
        out[n - 1] += 1;
    if (n > 0 && fault == 'n')
        out[n - 1] = NAN;
    if (n > 0 && (fault == 'l' || fault == 'r'))
        out[n - 1] *= fault == 'l' ? 1 + 1e-4f : 1 + 1e-6f;
}

static int64_t now_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* Lets the time since start_ns last percent longer. */
static void wait_longer(int64_t start_ns, int64_t percent)
{
    const int64_t end_ns = now_ns() + (now_ns() - start_ns) * percent / 100;

    while (percent > 0 && now_ns() < end_ns)
        ;
}

static inlay_status run(const kit_call *call)
{
    const struct state *state = call->state;
    const float *a = call->in[0].data, *b = call->in_count > 1 ? call->in[1].data : NULL;
    float *out = call->out[0].data;
    const int64_t start_ns = now_ns();

    for (int64_t i = 0; i < call->out[0].count; i++)
        out[i] = apply(state->op, a[i], b != NULL ? b[i] : 0);
    plant_fault(out, call->out[0].count, state->fault);
    wait_longer(start_ns, state->slow);
    return INLAY_OK;
}

/* The row function of a chain, which computes one tile. */
static void row(const void *of, float *out, const float *const *in, const int64_t *step, int64_t n)
{
    const struct state *state = of;
    const int64_t start_ns = now_ns();

    for (int64_t i = 0; i < n; i++)
        out[i] = apply(state->op, in[0][i * step[0]], state->op == '+' || state->op == '*' ? in[1][i * step[1]] : 0);
    plant_fault(out, n, state->fault == 'f' ? 'e' : state->fault);
    wait_longer(start_ns, state->slow);
}

static bool of_one_shape(const kit_node *node, kit_refusal *why)
{
    const inlay_value_info *output = kit_output(node, 0);
    const struct settings *set = node->provider;

    if (strcmp(set->fault, "offer") == 0 && strcmp(output->name.data, set->at) == 0)
        return kit_refuse(why, INLAY_REFUSE_OPTION, "another node", "the planted provider no longer takes this node");
    for (uint32_t i = 0; i < node->info->input_count; i++) {
        const inlay_value_info *input = kit_input(node, i);
        bool same = input->rank == output->rank && input->rank != INLAY_RANK_UNKNOWN;

        for (uint32_t d = 0; same && d < input->rank; d++)
            same = input->dims[d].kind == output->dims[d].kind && input->dims[d].value == output->dims[d].value &&
                   input->dims[d].symbol == output->dims[d].symbol;
        if (!same)
            return kit_refuse(why, INLAY_REFUSE_SHAPE, "equal shapes", "the planted provider does not broadcast");
    }
    return true;
}

#define ROW(name, count)                                                                                               \
    {                                                                                                                  \
        .op_type = name, .in_types = { KIT_BIT(FLOAT) }, .supports = of_one_shape, .prepare = prepare, .run = run,     \
        .row = row, .row_inputs = count                                                                                \
    }
static const kit_kernel kernels[] = { ROW("Add", 2), ROW("Mul", 2), ROW("Neg", 1), ROW("Relu", 1), ROW("Abs", 1) };
static const kit_table table = { kernels, KIT_COUNT(kernels) }, *const tables[] = { &table };

static inlay_status open_planted(const inlay_host *host, const inlay_create_args *args, void **out, inlay_diag *diag)
{
    struct settings *set = calloc(1, sizeof *set);

    *out = set;
    if (set == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory");
    for (uint32_t i = 0; i < args->option_count; i++) {
        const inlay_option_value *value = INLAY_AT(inlay_option_value, args->options, args->option_stride, i);
        const size_t held_bytes = (size_t)value->i << 20;

        if (strcmp(value->name, "fault") == 0)
            strncpy(set->fault, value->s, sizeof set->fault - 1);
        else if (strcmp(value->name, "at") == 0)
            strncpy(set->at, value->s, sizeof set->at - 1);
        else if (strcmp(value->name, "slow") == 0)
            set->slow = value->i;
        else if (strcmp(value->name, "warn") == 0 && value->s[0] != '\0')
            host->log(host->ctx, INLAY_LOG_WARNING, value->s);
        else if (strcmp(value->name, "hold") == 0 && value->i > 0 && (set->held = malloc(held_bytes)) != NULL)
            memset(set->held, 1, held_bytes);
    }
    return INLAY_OK;
}

static void close_planted(void *provider)
{
    free(((struct settings *)provider)->held);
    free(provider);
}

static const inlay_option options[] = {
    { .name = "fault",
      .kind = INLAY_OPTION_STRING,
      .default_value = "",
      .doc = "element, nan, shape, fused, little, rounding, offer" },
    { .name = "at", .kind = INLAY_OPTION_STRING, .default_value = "", .doc = "the value that is computed wrongly" },
    { .name = "slow", .kind = INLAY_OPTION_INT, .default_value = "0", .doc = "percent of time that is added" },
    { .name = "hold", .kind = INLAY_OPTION_INT, .default_value = "0", .doc = "MiB that the provider holds" },
    { .name = "warn", .kind = INLAY_OPTION_STRING, .default_value = "", .doc = "a warning to log" },
};
static const kit_provider provider = {
    .name = "planted",
    .description = "correct, except for the planted fault",
    .tables = tables,
    .table_count = 1,
    .options = options,
    .option_count = KIT_COUNT(options),
    .open = open_planted,
    .close = close_planted,
};
static const kit_plugin plugin = { .name = "planted", .version = "1.0", .provider = &provider };
KIT_PLUGIN_NAMED(plugin, "planted", "planted", "")
