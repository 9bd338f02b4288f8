/* Random Einsum equations with numpy's rules, compared with sums over all labels: repeated labels, labels of one
 * operand, "...", sizes of 0 and 1, equations without "->", sizes that are known or named.
 *
 *     test_passes_einsum [EQUATIONS [SEED]] */
#include "random.h"
#include "rig.h"
#include <stdlib.h>

enum { MOST_TERMS = 4, MOST_NAMED = 4, LETTERS = 5, HIDDEN = 2, LABELS = LETTERS + HIDDEN, MOST_AXES = LABELS };

static uint32_t equations = 1000;
static uint64_t seed = 1;

/* The axes of an operand or of the result. Labels from LETTERS on are the axes of the ellipsis. */
struct term {
    uint32_t labels[MOST_AXES], count;
    int64_t dims[MOST_AXES];
};

struct equation {
    char text[96];
    inlay_dtype dtype;
    struct term in[MOST_TERMS], out;
    uint32_t count;
    int64_t size[LABELS];
};

static const char names[LETTERS + 1] = "ZbcaY"; /* capitals sort before small letters */

static bool chance(uint32_t in)
{
    return random_below(&seed, in) == 0;
}

/* The size of the label's axis in the term; -1: it has none. */
static int64_t size_in(const struct term *term, uint32_t label)
{
    for (uint32_t i = 0; i < term->count; i++)
        if (term->labels[i] == label)
            return term->dims[i];
    return -1;
}

static void add_text(struct equation *equation, const char *text, size_t bytes)
{
    const size_t used = strlen(equation->text);

    assert_true(used + bytes < sizeof equation->text);
    memcpy(equation->text + used, text, bytes);
    equation->text[used + bytes] = '\0';
}

static void add_axis(struct equation *equation, struct term *term, uint32_t label, int64_t size)
{
    assert_true(term->count < MOST_AXES);
    term->labels[term->count] = label;
    term->dims[term->count++] = size;
    if (label < LETTERS)
        add_text(equation, &names[label], 1);
    if (chance(12))
        add_text(equation, " ", 1);
}

/* The last `count` axes of the ellipsis. */
static void add_ellipsis(struct equation *equation, struct term *term, uint32_t count, bool may_broadcast)
{
    add_text(equation, "...", 3);
    for (uint32_t label = LABELS - count; label < LABELS; label++)
        add_axis(equation, term, label, may_broadcast && chance(5) ? 1 : equation->size[label]);
}

static void make_operand(struct equation *equation, struct term *term, uint32_t hidden, bool ellipsis)
{
    const uint32_t rank = (uint32_t)random_below(&seed, 5), at = (uint32_t)random_below(&seed, rank + 1);

    for (uint32_t i = 0; i <= rank; i++) {
        const uint32_t label = (uint32_t)random_below(&seed, LETTERS);
        const int64_t before = size_in(term, label);

        if (i == at && ellipsis)
            add_ellipsis(equation, term, (uint32_t)random_below(&seed, hidden + 1), true);
        if (i < rank && term->count < MOST_NAMED && (before < 0 || chance(4)))
            add_axis(equation, term, label, before >= 0 ? before : chance(10) ? 1 : equation->size[label]);
    }
}

static uint32_t occurrences(const struct equation *equation, uint32_t label)
{
    uint32_t count = 0;

    for (uint32_t t = 0; t < equation->count; t++)
        for (uint32_t i = 0; i < equation->in[t].count; i++)
            count += equation->in[t].labels[i] == label;
    return count;
}

/* A label has size 1 where no operand has more. */
static void settle_sizes(struct equation *equation)
{
    for (uint32_t label = 0; label < LABELS; label++) {
        bool all_one = true;

        for (uint32_t t = 0; t < equation->count; t++)
            for (uint32_t i = 0; i < equation->in[t].count; i++)
                all_one &= equation->in[t].labels[i] != label || equation->in[t].dims[i] == 1;
        if (all_one)
            equation->size[label] = 1;
    }
}

static void make_output(struct equation *equation, uint32_t hidden, bool ellipsis)
{
    uint32_t order[LETTERS] = { 0, 1, 2, 3, 4 }, wanted = (uint32_t)random_below(&seed, LETTERS + 1), at;
    const bool implicit = chance(6);
    char text[sizeof equation->text];

    while (hidden > 0 && occurrences(equation, LABELS - hidden) == 0)
        hidden--;
    if (implicit) { /* all axes of the ellipsis, then the letters that occur once, in the order of ASCII */
        static const uint32_t sorted[LETTERS] = { 4, 0, 3, 1, 2 };

        memcpy(text, equation->text, sizeof text);
        if (ellipsis)
            add_ellipsis(equation, &equation->out, hidden, false);
        for (uint32_t i = 0; i < LETTERS; i++)
            if (occurrences(equation, sorted[i]) == 1)
                add_axis(equation, &equation->out, sorted[i], equation->size[sorted[i]]);
        memcpy(equation->text, text, sizeof text);
        return;
    }
    for (uint32_t i = LETTERS; i-- > 1;) {
        const uint32_t k = (uint32_t)random_below(&seed, i + 1), label = order[i];

        order[i] = order[k];
        order[k] = label;
    }
    add_text(equation, "->", 2);
    at = (uint32_t)random_below(&seed, wanted + 1);
    for (uint32_t i = 0; i <= wanted; i++) {
        if (i == at && ellipsis)
            add_ellipsis(equation, &equation->out, hidden, false);
        if (i < wanted && occurrences(equation, order[i]) > 0 && equation->out.count < MOST_NAMED)
            add_axis(equation, &equation->out, order[i], equation->size[order[i]]);
    }
}

static void make_equation(struct equation *equation)
{
    const uint32_t hidden = (uint32_t)random_below(&seed, HIDDEN + 1);
    const bool ellipsis = chance(4);

    *equation = (struct equation){ .count = 1 + (uint32_t)random_below(&seed, chance(3) ? MOST_TERMS : 2),
                                   .dtype = chance(3) ? INLAY_DOUBLE : INLAY_FLOAT };
    for (uint32_t label = 0; label < LABELS; label++)
        equation->size[label] = chance(20) ? 0 : 1 + (int64_t)random_below(&seed, 4);
    for (uint32_t t = 0; t < equation->count; t++) {
        if (t > 0)
            add_text(equation, ",", 1);
        make_operand(equation, &equation->in[t], hidden, ellipsis && !chance(3));
    }
    settle_sizes(equation);
    make_output(equation, hidden, strstr(equation->text, "...") != NULL);
}

/* Element of the result or of an operand at the labels' indexes. */
static int64_t offset_of(const struct term *term, const int64_t *index)
{
    int64_t offset = 0;

    for (uint32_t i = 0; i < term->count; i++)
        offset = offset * term->dims[i] + (term->dims[i] == 1 ? 0 : index[term->labels[i]]);
    return offset;
}

/* Adds the product of all operands at each index of the labels that occur. */
static void add_products(const struct equation *equation, double *const *data, double *result)
{
    int64_t index[LABELS] = { 0 }, total = 1;

    for (uint32_t label = 0; label < LABELS; label++)
        total *= occurrences(equation, label) > 0 ? equation->size[label] : 1;
    for (int64_t n = 0; n < total; n++) {
        int64_t rest = n;
        double product = 1;

        for (uint32_t label = 0; label < LABELS; label++)
            if (occurrences(equation, label) > 0) {
                index[label] = rest % equation->size[label];
                rest /= equation->size[label];
            }
        for (uint32_t t = 0; t < equation->count; t++)
            product *= data[t][offset_of(&equation->in[t], index)];
        result[offset_of(&equation->out, index)] += product;
    }
}

/* Declares an input; some sizes are named after their label. */
static void declare(struct wire *wire, const struct equation *equation, uint32_t t, bool named)
{
    const struct term *term = &equation->in[t];
    char shape[64] = "", name[2] = { (char)('p' + t), '\0' };

    for (uint32_t i = 0; i < term->count; i++) {
        const size_t used = strlen(shape);

        if (named && term->dims[i] == equation->size[term->labels[i]] && term->labels[i] % 2 == 0)
            (void)snprintf(shape + used, sizeof shape - used, "%sL%u", i > 0 ? "," : "", term->labels[i]);
        else
            (void)snprintf(shape + used, sizeof shape - used, "%s%lld", i > 0 ? "," : "", (long long)term->dims[i]);
    }
    mw_value(wire, MW_INPUT, name, (int)equation->dtype, shape);
}

/* Binds small integers, whose sums are exact in either type; returns them. */
static double *bind(struct rig *rig, const struct equation *equation, uint32_t t)
{
    inlay_value *value = NULL;
    double *data;
    int64_t count;

    assert_int_equal(inlay_value_create(equation->dtype, equation->in[t].count, equation->in[t].dims, &value, NULL),
                     INLAY_OK);
    count = inlay_value_count(value);
    data = malloc((size_t)(count + 1) * sizeof *data);
    assert_non_null(data);
    for (int64_t i = 0; i < count; i++) {
        data[i] = (double)random_between(&seed, -3, 3);
        if (equation->dtype == INLAY_DOUBLE)
            ((double *)inlay_value_data(value))[i] = data[i];
        else
            ((float *)inlay_value_data(value))[i] = (float)data[i];
    }
    rig_bind(rig, t, value);
    return data;
}

static void check(const struct equation *equation, inlay_value *got, double *const *data)
{
    const int64_t count = inlay_value_count(got);
    double *want = calloc((size_t)count + 1, sizeof *want);

    assert_non_null(want);
    assert_int_equal(inlay_value_rank(got), equation->out.count);
    for (uint32_t d = 0; d < equation->out.count; d++)
        if (inlay_value_dims(got)[d] != equation->out.dims[d])
            fail_msg("%s: size %u is %lld, not %lld", equation->text, d, (long long)inlay_value_dims(got)[d],
                     (long long)equation->out.dims[d]);
    add_products(equation, data, want);
    for (int64_t i = 0; i < count; i++) {
        const double is = equation->dtype == INLAY_DOUBLE ? ((const double *)inlay_value_data(got))[i]
                                                          : ((const float *)inlay_value_data(got))[i];

        if (is != want[i])
            fail_msg("%s: element %lld is %g, not %g", equation->text, (long long)i, is, want[i]);
    }
    free(want);
}

static void run_equation(const struct equation *equation)
{
    struct wire wire = { 0 };
    wire_mark graph = mw_begin(&wire, 8, chance(2) ? 17 : 12), node, attr;
    inlay_diag diag = INLAY_DIAG_INIT;
    double *data[MOST_TERMS];
    const bool named = chance(2);
    char inputs[8];
    struct rig rig;

    for (uint32_t t = 0; t < equation->count; t++)
        declare(&wire, equation, t, named);
    (void)snprintf(inputs, sizeof inputs, "%.*s", (int)(2 * equation->count - 1), "p,q,r,s");
    node = mw_node_begin(&wire, "Einsum", inputs, "y");
    attr = mw_attr_begin(&wire, "equation", 3);
    wire_text(&wire, 4, equation->text);
    wire_end(&wire, attr);
    wire_end(&wire, node);
    mw_value(&wire, MW_OUTPUT, "y", (int)equation->dtype, NULL);
    wire_end(&wire, graph);
    if (rig_try_open(&wire, NULL, &rig, &diag) != INLAY_OK)
        fail_msg("%s: %s", equation->text, diag.text);
    for (uint32_t t = 0; t < equation->count; t++)
        data[t] = bind(&rig, equation, t);
    rig_run(&rig);
    check(equation, inlay_context_output(rig.context, 0), data);
    for (uint32_t t = 0; t < equation->count; t++)
        free(data[t]);
    rig_close(&rig);
}

static void random_equations(void **state)
{
    const uint32_t rounds = random_rounds(equations);
    struct equation equation;

    (void)state;
    for (uint32_t i = 0; i < rounds; i++) {
        make_equation(&equation);
        run_equation(&equation);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(random_equations) };

    if (argc > 1)
        equations = (uint32_t)strtoul(argv[1], NULL, 10);
    if (argc > 2)
        seed = strtoull(argv[2], NULL, 10);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
