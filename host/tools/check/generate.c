#include "check/generate.h"
#include "base/element.h"
#include <ctype.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

enum { PARAMS = 3 * OP_MAX_FORMALS, MAX_NUMBERS = 64 };

struct recipe {
    const char *op_type;
    uint32_t outputs;
    const char *inputs;
    const char *attrs;
};

static const struct recipe recipes[] = {
#define RECIPE(op, outputs, inputs, attrs) { op, outputs, inputs, attrs },
#include "check/recipes.def"
#undef RECIPE
};
enum { RECIPE_COUNT = sizeof recipes / sizeof recipes[0] };

/* Shapes for operators without a recipe; the last one grows. */
static const char *const shapes[] = { "3,5",   "()",      "7",    "2,3,4",     "2,0,3",
                                      "65,33", "1,3,9,9", "1031", "2,1,3,1,2", "64n,48n" };
enum { SHAPE_COUNT = sizeof shapes / sizeof shapes[0], QUICK_SHAPES = 6 };
/* For operators of two inputs: what the second is beside [3, 5], to be broadcast. */
static const char *const second[] = { "()", "5", "3,1", "1,1,1", "2,3,5" };
enum { SECOND_COUNT = sizeof second / sizeof second[0] };

/* ------------------------------------------------------------------ reading recipes */

struct maker {
    const case_source *source;
    const case_range *range;
    case_fn fn;
    void *user;
    inlay_dtype types[PARAMS]; /* of each type parameter */
    bool stopped;
    uint64_t state;
};

static const char *skip(const char *at)
{
    while (*at == ' ')
        at++;
    return at;
}

/* Reads "[1,2.5]" or a single number into memory of the case. */
static const char *read_numbers(op_case *k, const char *at, const double **out, uint32_t *out_count)
{
    double numbers[MAX_NUMBERS];
    uint32_t count = 0;
    char *end;

    at += *at == '[';
    while (count < MAX_NUMBERS && *at != ']' && *at != '\0') {
        numbers[count++] = strtod(at, &end);
        if (end == at)
            break;
        at = *end == ',' ? end + 1 : end;
    }
    *out = arena_copy(&k->a, numbers, count * sizeof *numbers);
    *out_count = *out != NULL ? count : 0;
    return *at == ']' ? at + 1 : at;
}

static inlay_dtype type_of(const struct maker *m, const op_formal *formal)
{
    return formal != NULL && formal->type_param >= 0 ? m->types[formal->type_param] : INLAY_UNDEFINED;
}

/* Reads one input of a recipe and adds it. NULL: it cannot be. */
static const char *read_input(const struct maker *m, op_case *k, const char *at, bool constants)
{
    const op_formal *formal = op_input_formal(m->source->schema, k->in_count);
    int64_t dims[CASE_RANK];
    uint32_t rank = 0;
    case_tensor *t;
    char *end;

    at = skip(at);
    if (*at == '-')
        return case_input(k, INLAY_UNDEFINED, 0, NULL, false) != NULL ? skip(at + 1) : NULL;
    if (strncmp(at, "()", 2) == 0)
        at += 2;
    while (isdigit((unsigned char)*at) && rank < CASE_RANK) {
        dims[rank] = strtoll(at, &end, 10);
        if (*end == 'n')
            dims[rank] *= m->range->scale, end++;
        rank++;
        at = *end == ',' ? end + 1 : end;
    }
    t = type_of(m, formal) != INLAY_UNDEFINED ? case_input(k, type_of(m, formal), rank, dims, false) : NULL;
    if (t == NULL)
        return NULL;
    for (at = skip(at); *at != ';' && *at != '\0'; at = skip(at)) {
        if (*at == '!') {
            t->constant = constants;
            at++;
        } else if (*at == '=') {
            at = read_numbers(k, at + 1, &t->given, &t->given_count);
        } else if (isdigit((unsigned char)*at)) {
            t->low = strtoll(at, &end, 10);
            t->high = strtoll(end + 2, &end, 10);
            at = end;
        } else {
            return NULL;
        }
    }
    return at;
}

static bool read_list(op_case *k, inlay_attr_info *a, const char **at)
{
    const double *numbers;
    int64_t *ints;

    *at = read_numbers(k, *at, &numbers, &a->count);
    ints = arena_array(&k->a, a->count + (size_t)1, sizeof *ints);
    for (uint32_t i = 0; ints != NULL && i < a->count; i++)
        ints[i] = (int64_t)numbers[i];
    a->kind = INLAY_ATTR_INTS;
    a->ints = ints;
    return ints != NULL;
}

/* Reads "name=value" and adds it. */
static const char *read_attr(op_case *k, const char *at)
{
    size_t name = strcspn(at, "=");
    const char *end;
    inlay_attr_info a = { .name = { arena_string_n(&k->a, at, name), name } };

    if (a.name.data == NULL || at[name] != '=')
        return NULL;
    at += name + 1;
    if (*at == '\'') {
        end = strchr(at + 1, '\'');
        a.kind = INLAY_ATTR_STRING;
        a.s = (inlay_str){ arena_string_n(&k->a, at + 1, (size_t)(end - at - 1)), (uint64_t)(end - at - 1) };
        at = end + 1;
        if (a.s.data == NULL)
            return NULL;
    } else if (*at == '[') {
        if (!read_list(k, &a, &at))
            return NULL;
    } else {
        size_t bytes = strcspn(at, " ");

        a.kind = memchr(at, '.', bytes) != NULL ? INLAY_ATTR_FLOAT : INLAY_ATTR_INT;
        a.f = strtod(at, NULL);
        a.i = strtoll(at, NULL, 10);
        at += bytes;
    }
    return case_attr(k, &a) ? skip(at) : NULL;
}

/* ------------------------------------------------------------------ one case */

static void hand_over(struct maker *m, op_case *k)
{
    k->random = m->source->random;
    if (!m->stopped && case_fill(k, case_random(&m->state)) == INLAY_OK)
        m->stopped = !m->fn(m->user, k);
}

static bool has_attr(const op_case *k, const char *name)
{
    for (uint32_t i = 0; i < k->attr_count; i++)
        if (strcmp(k->attrs[i].name.data, name) == 0)
            return true;
    return false;
}

/* Something for the attributes without which there is no node. */
static bool add_required(const struct maker *m, op_case *k)
{
    static const int64_t one = 1;
    static const float half = 0.5F;

    for (uint32_t i = 0; i < m->source->schema->attr_count; i++) {
        const op_attr *s = &m->source->schema->attrs[i];
        const size_t bytes = strlen(s->name);
        inlay_attr_info a = { .kind = s->kind, .i = 1, .f = 0.5, .s = { "", 0 } };

        if (!s->required || has_attr(k, s->name))
            continue;
        a.name = (inlay_str){ arena_copy(&k->a, s->name, bytes + 1), bytes }; /* the case may outlive the schema */
        if (a.name.data == NULL)
            return false;
        a.count = s->kind == INLAY_ATTR_INTS || s->kind == INLAY_ATTR_FLOATS;
        a.ints = s->kind == INLAY_ATTR_INTS ? &one : NULL;
        a.floats = s->kind == INLAY_ATTR_FLOATS ? &half : NULL;
        if (s->kind == INLAY_ATTR_TENSOR || s->kind > INLAY_ATTR_STRINGS || !case_attr(k, &a))
            return false;
    }
    return true;
}

static void make_from(struct maker *m, const struct recipe *r, bool constants)
{
    const char *at = r->inputs;
    bool ok = true;
    op_case k;

    case_init(&k, m->source->domain, m->source->op_type, m->source->opset);
    k.out_count = r->outputs;
    while (ok && *at != '\0') {
        at = read_input(m, &k, at, constants);
        ok = at != NULL;
        at += ok && *at == ';';
    }
    for (at = r->attrs; ok && *at != '\0';) {
        at = read_attr(&k, at);
        ok = at != NULL;
    }
    if (ok && m->source->own != NULL)
        ok = add_required(m, &k);
    if (ok)
        hand_over(m, &k);
    case_deinit(&k);
}

/* A list of the same shape for as many inputs as the operator takes; all: the optional ones too. */
static void make_generic(struct maker *m, const char *first, const char *other, bool all)
{
    const op_schema *s = m->source->schema;
    uint32_t count = s->min_inputs, outputs = s->min_outputs > 0 ? s->min_outputs : 1;
    char text[256] = "";
    size_t used = 0;

    if (all)
        count = s->max_inputs == UINT32_MAX ? s->min_inputs + 2 : s->max_inputs;
    if (count > 8)
        return;
    for (uint32_t i = 0; i < count && used < sizeof text; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", i > 0 ? ";" : "", i == 0 ? first : other);
    make_from(m, &(struct recipe){ .outputs = outputs, .inputs = text, .attrs = "" }, false);
}

/* ------------------------------------------------------------------ shapes */

static bool grows(const char *inputs)
{
    return strchr(inputs, 'n') != NULL;
}

/* All shapes at the types at hand; few: the first ones only. */
static void make_shapes(struct maker *m, bool few)
{
    const op_schema *s = m->source->schema;
    bool found = false;
    uint32_t made = 0;

    for (uint32_t i = 0; i < RECIPE_COUNT && !m->stopped; i++) {
        const struct recipe *r = &recipes[i];

        if (strcmp(r->op_type, m->source->op_type) != 0)
            continue;
        found = true;
        if ((m->range->scaled && !grows(r->inputs)) || (few && made >= 3))
            continue;
        made++;
        make_from(m, r, true);
        if (strchr(r->inputs, '!') != NULL && !few)
            make_from(m, r, false);
    }
    for (uint32_t i = 0; i < SHAPE_COUNT && !found && !m->stopped; i++) {
        if ((m->range->scaled && !grows(shapes[i])) || (few && i >= 2) ||
            (m->range->quick && !m->range->scaled && i >= QUICK_SHAPES))
            continue;
        make_generic(m, shapes[i], shapes[i], false);
        if (s->max_inputs > s->min_inputs && !m->range->scaled)
            make_generic(m, shapes[i], shapes[i], true);
    }
    for (uint32_t i = 0; i < SECOND_COUNT && !found && !few && !m->range->scaled && s->min_inputs == 2; i++)
        make_generic(m, "3,5", second[i], false);
}

/* ------------------------------------------------------------------ examples at other sizes
 *
 * Equal sizes of an example stay equal: what has to fit together does. All sizes change, or all that are the same
 * number. */

struct resize {
    int64_t times, plus;
};
static const struct resize resizes[] = {
    { 1, 1 }, { 3, 1 }, { 0, 1 }, { 1, 0 }, { 2, 0 }, { 1, -1 }, { 0, 0 }, { 9, 5 }
};
enum { RESIZES = sizeof resizes / sizeof resizes[0], QUICK_RESIZES = 4, MOST_EXAMPLES = 8 };

static int64_t resized(int64_t dim, int64_t only, struct resize r)
{
    int64_t to = dim * r.times + r.plus;

    return only >= 0 && dim != only ? dim : to < 0 ? 0 : to;
}

/* The range of an example's integers, so that indexes stay what they are. */
static void take_range(const inlay_tensor_view *from, case_tensor *t)
{
    int64_t count = from->bytes * 8 / (inlay_dtype_bits(from->dtype) > 0 ? inlay_dtype_bits(from->dtype) : 8), value;

    for (int64_t i = 0; i < count && from->dtype != INLAY_STRING; i++) {
        if (!element_integer(from->dtype, from->data, i, &value))
            return;
        t->low = i == 0 || value < t->low ? value : t->low;
        t->high = i == 0 || value > t->high ? value : t->high;
    }
}

/* only: the size that changes; -1: all do. */
static void make_resized(struct maker *m, const inlay_op_example *e, int64_t only, struct resize r)
{
    bool ok = e->output_count <= CASE_OUTPUTS;
    op_case k;

    case_init(&k, m->source->domain, m->source->op_type, m->source->opset);
    k.out_count = e->output_count;
    for (uint32_t i = 0; ok && i < e->input_count; i++) {
        const inlay_tensor_view *from = &e->inputs[i];
        int64_t dims[CASE_RANK];
        case_tensor *t;

        for (uint32_t d = 0; d < from->rank && d < CASE_RANK; d++)
            dims[d] = resized(from->dims[d], only, r);
        t = case_input(&k, from->dtype, from->rank, dims, false);
        ok = t != NULL;
        if (ok)
            take_range(from, t);
    }
    for (uint32_t i = 0; ok && i < e->attr_count; i++)
        ok = case_attr(&k, INLAY_AT(inlay_attr_info, e->attrs, e->attr_stride, i));
    if (ok)
        hand_over(m, &k);
    case_deinit(&k);
}

/* Is it the first dim of that size? */
static bool is_first(const inlay_op_example *e, uint32_t input, uint32_t dim)
{
    for (uint32_t i = 0; i <= input; i++)
        for (uint32_t d = 0; d < (i == input ? dim : e->inputs[i].rank); d++)
            if (e->inputs[i].dims[d] == e->inputs[input].dims[dim])
                return false;
    return true;
}

static void make_from_examples(struct maker *m)
{
    const inlay_operator *op = m->source->own;
    const uint32_t sizes = m->range->quick ? QUICK_RESIZES : RESIZES;

    for (uint32_t x = 0; x < op->example_count && x < MOST_EXAMPLES; x++) {
        const inlay_op_example *e = INLAY_AT(inlay_op_example, op->examples, op->example_stride, x);

        if (m->range->scaled) {
            make_resized(m, e, -1, (struct resize){ 2 * m->range->scale, 1 });
            continue;
        }
        for (uint32_t r = 0; r < sizes && !m->stopped; r++)
            make_resized(m, e, -1, resizes[r]);
        for (uint32_t i = 0; i < e->input_count; i++)
            for (uint32_t d = 0; d < e->inputs[i].rank; d++)
                for (uint32_t r = 0; r < sizes && is_first(e, i, d) && !m->stopped; r++)
                    make_resized(m, e, e->inputs[i].dims[d], resizes[r]);
    }
}

/* ------------------------------------------------------------------ types */

static bool allows(const op_type_param *p, inlay_dtype t)
{
    return t != INLAY_UNDEFINED && (p->types.tensor & INLAY_DTYPE_BIT(t)) != 0;
}

/* The type of a parameter that nothing was said about. */
static inlay_dtype usual_type(const op_type_param *p, inlay_dtype like)
{
    static const inlay_dtype order[] = { INLAY_INT64, INLAY_FLOAT, INLAY_UINT8, INLAY_INT32, INLAY_BOOL };

    if (allows(p, like))
        return like;
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++)
        if (allows(p, order[i]))
            return order[i];
    for (inlay_dtype t = 1; t < INLAY_DTYPE_COUNT; t++)
        if (allows(p, t))
            return t;
    return INLAY_UNDEFINED;
}

/* The parameter of the first input; -1: there is none. */
static int32_t main_param(const op_schema *s)
{
    return s->input_count > 0 ? s->inputs[0].type_param : -1;
}

static void set_types(struct maker *m, int32_t param, inlay_dtype t)
{
    const op_schema *s = m->source->schema;

    for (uint32_t i = 0; i < s->type_count && i < PARAMS; i++)
        m->types[i] = (int32_t)i == param ? t : usual_type(&s->types[i], t);
}

void generate_cases(const case_source *source, const case_range *range, case_fn fn, void *user)
{
    const op_schema *s = source->schema;
    struct maker m = { .source = source, .range = range, .fn = fn, .user = user, .state = range->seed };
    int32_t first = main_param(s);
    inlay_dtype usual = INLAY_FLOAT;

    if (first >= 0 && !allows(&s->types[first], usual))
        usual = usual_type(&s->types[first], INLAY_UNDEFINED);
    set_types(&m, first, usual);
    make_shapes(&m, false);
    if (source->own != NULL)
        make_from_examples(&m);
    if (range->scaled || first < 0)
        return;
    for (inlay_dtype t = 1; t < INLAY_DTYPE_COUNT && !m.stopped; t++) {
        if (t == usual || !allows(&s->types[first], t))
            continue;
        set_types(&m, first, t);
        make_shapes(&m, range->quick);
    }
    /* The other parameters of inputs, each in turn. */
    for (uint32_t i = 1; i < s->input_count && !m.stopped; i++) {
        int32_t param = s->inputs[i].type_param;

        for (inlay_dtype t = 1; param >= 0 && param != first && t < INLAY_DTYPE_COUNT && !m.stopped; t++) {
            if (!allows(&s->types[param], t))
                continue;
            set_types(&m, first, usual);
            if (m.types[param] == t)
                continue;
            m.types[param] = t;
            make_shapes(&m, true);
        }
    }
}

/* ------------------------------------------------------------------ operators */

static void *schema_alloc(void *ctx, size_t bytes)
{
    return arena_alloc(ctx, bytes);
}

static bool give_source(case_source source, const char *signature, source_fn fn, void *user)
{
    op_schema schema;
    struct arena a = { 0 };
    bool go_on = true;

    if (op_schema_parse(signature, schema_alloc, &a, &schema, NULL) == INLAY_OK) {
        source.schema = &schema;
        go_on = fn(user, &source);
    }
    arena_deinit(&a);
    return go_on;
}

static bool give_own(const inlay_operator *op, source_fn fn, void *user)
{
    return give_source((case_source){ .domain = op->domain,
                                      .op_type = op->op_type,
                                      .opset = op->since_version,
                                      .own = op,
                                      .random = (op->flags & INLAY_OPERATOR_RANDOM) != 0 },
                       op->signature, fn, user);
}

static bool is_newest(const op_table *t, uint32_t row)
{
    return row + 1 == t->count || strcmp(t->rows[row + 1].op_type, t->rows[row].op_type) != 0;
}

typedef struct one_source {
    case_fn fn;
    void *user;
    const case_range *range;
} one_source;

static bool generate_one(void *user, const case_source *source)
{
    const one_source *o = user;

    generate_cases(source, o->range, o->fn, o->user);
    return true;
}

void generate_operator(const inlay_operator *op, case_fn fn, void *user, const case_range *range)
{
    one_source o = { fn, user, range };

    (void)give_own(op, generate_one, &o);
}

void generate_sources(const inlay_operator *const *custom, uint32_t custom_count, const char *match, bool newest,
                      source_fn fn, void *user)
{
    uint32_t count;
    const op_table *const *tables = op_tables(&count);

    for (uint32_t t = 0; t < count; t++) {
        for (uint32_t r = 0; r < tables[t]->count; r++) {
            const op_row *row = &tables[t]->rows[r];

            if ((row->flags & (OP_HOST | OP_DEPRECATED)) != 0 || (newest && !is_newest(tables[t], r)) ||
                (match != NULL && fnmatch(match, row->op_type, 0) != 0))
                continue;
            if (!give_source((case_source){ .domain = tables[t]->domain,
                                            .op_type = row->op_type,
                                            .opset = row->since_version,
                                            .random = (row->flags & OP_RANDOM) != 0 },
                             row->signature, fn, user))
                return;
        }
    }
    for (uint32_t i = 0; i < custom_count; i++)
        if (match == NULL || fnmatch(match, custom[i]->op_type, 0) == 0)
            if (!give_own(custom[i], fn, user))
                return;
}
