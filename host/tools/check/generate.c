#include "check/generate.h"
#include "base/element.h"
#include "base/random.h"
#include "inlay/check.h"
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

/* Shapes for operators without a recipe; the last one grows with the scale. */
static const char *const shapes[] = { "3,5",   "()",      "7",    "2,3,4",     "2,0,3",
                                      "65,33", "1,3,9,9", "1031", "2,1,3,1,2", "64n,48n" };
enum { SHAPE_COUNT = sizeof shapes / sizeof shapes[0], QUICK_SHAPES = 6 };
/* For operators of two inputs: shapes of the second input to broadcast with [3, 5]. */
static const char *const second[] = { "()", "5", "3,1", "1,1,1", "2,3,5" };
enum { SECOND_COUNT = sizeof second / sizeof second[0] };

struct generator {
    const case_source *source;
    const case_range *range;
    case_fn fn;
    void *user;
    inlay_dtype types[PARAMS]; /* for each type parameter of the schema */
    bool stopped;
    uint64_t state;
};

static const char *skip(const char *at)
{
    while (*at == ' ')
        at++;
    return at;
}

/* Parses "[1,2.5]" or a single number into memory of the case. */
static const char *read_numbers(op_case *entry, const char *at, const double **out, uint32_t *out_count)
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
    *out = arena_copy(&entry->arena, numbers, count * sizeof *numbers);
    *out_count = *out != NULL ? count : 0;
    return *at == ']' ? at + 1 : at;
}

static inlay_dtype type_of(const struct generator *generator, const op_formal *formal)
{
    return formal != NULL && formal->type_param >= 0 ? generator->types[formal->type_param] : INLAY_UNDEFINED;
}

/* Parses one input of a recipe and adds it to the case. NULL: the operator does not take it. */
static const char *read_input(const struct generator *generator, op_case *entry, const char *at, bool constants)
{
    const op_formal *formal = op_input_formal(generator->source->schema, entry->in_count);
    int64_t dims[CASE_RANK];
    uint32_t rank = 0;
    case_tensor *tensor;
    char *end;

    at = skip(at);
    if (*at == '-')
        return case_input(entry, INLAY_UNDEFINED, 0, NULL, false) != NULL ? skip(at + 1) : NULL;
    if (strncmp(at, "()", 2) == 0)
        at += 2;
    while (isdigit((unsigned char)*at) && rank < CASE_RANK) {
        dims[rank] = strtoll(at, &end, 10);
        if (*end == 'n')
            dims[rank] *= generator->range->scale, end++;
        rank++;
        at = *end == ',' ? end + 1 : end;
    }
    tensor = type_of(generator, formal) != INLAY_UNDEFINED
                 ? case_input(entry, type_of(generator, formal), rank, dims, false)
                 : NULL;
    if (tensor == NULL)
        return NULL;
    for (at = skip(at); *at != ';' && *at != '\0'; at = skip(at)) {
        if (*at == '!') {
            tensor->constant = constants;
            at++;
        } else if (*at == '=') {
            at = read_numbers(entry, at + 1, &tensor->given, &tensor->given_count);
        } else if (isdigit((unsigned char)*at)) {
            tensor->low = strtoll(at, &end, 10);
            tensor->high = strtoll(end + 2, &end, 10);
            at = end;
        } else {
            return NULL;
        }
    }
    return at;
}

static bool read_list(op_case *entry, inlay_attr_info *attribute, const char **at)
{
    const double *numbers;
    int64_t *ints;

    *at = read_numbers(entry, *at, &numbers, &attribute->count);
    ints = arena_array(&entry->arena, attribute->count + (size_t)1, sizeof *ints);
    for (uint32_t i = 0; ints != NULL && i < attribute->count; i++)
        ints[i] = (int64_t)numbers[i];
    attribute->kind = INLAY_ATTR_INTS;
    attribute->ints = ints;
    return ints != NULL;
}

/* Parses "name=value" and adds the attribute. */
static const char *read_attr(op_case *entry, const char *at)
{
    size_t name = strcspn(at, "=");
    const char *end;
    inlay_attr_info attribute = { .name = { arena_string_n(&entry->arena, at, name), name } };

    if (attribute.name.data == NULL || at[name] != '=')
        return NULL;
    at += name + 1;
    if (*at == '\'') {
        end = strchr(at + 1, '\'');
        attribute.kind = INLAY_ATTR_STRING;
        attribute.s =
            (inlay_str){ arena_string_n(&entry->arena, at + 1, (size_t)(end - at - 1)), (uint64_t)(end - at - 1) };
        at = end + 1;
        if (attribute.s.data == NULL)
            return NULL;
    } else if (*at == '[') {
        if (!read_list(entry, &attribute, &at))
            return NULL;
    } else {
        size_t bytes = strcspn(at, " ");

        attribute.kind = memchr(at, '.', bytes) != NULL ? INLAY_ATTR_FLOAT : INLAY_ATTR_INT;
        attribute.f = strtod(at, NULL);
        attribute.i = strtoll(at, NULL, 10);
        at += bytes;
    }
    return case_attr(entry, &attribute) ? skip(at) : NULL;
}

static void emit_case(struct generator *generator, op_case *entry)
{
    entry->random = generator->source->random;
    if (!generator->stopped && case_fill(entry, random_bits(&generator->state)) == INLAY_OK)
        generator->stopped = !generator->fn(generator->user, entry);
}

static bool has_attr(const op_case *entry, const char *name)
{
    for (uint32_t i = 0; i < entry->attr_count; i++)
        if (strcmp(entry->attrs[i].name.data, name) == 0)
            return true;
    return false;
}

/* Has an attribute of this kind a plain value? The others are tensors, graphs and types. */
static bool is_plain(uint32_t kind)
{
    return kind == INLAY_ATTR_INT || kind == INLAY_ATTR_FLOAT || kind == INLAY_ATTR_STRING || kind == INLAY_ATTR_INTS ||
           kind == INLAY_ATTR_FLOATS || kind == INLAY_ATTR_STRINGS;
}

/* Adds default values for required attributes. */
static bool add_required(const struct generator *generator, op_case *entry)
{
    static const int64_t one = 1;
    static const float half = 0.5F;

    for (uint32_t i = 0; i < generator->source->schema->attr_count; i++) {
        const op_attr *attribute = &generator->source->schema->attrs[i];
        const size_t bytes = strlen(attribute->name);
        inlay_attr_info value = { .kind = attribute->kind, .i = 1, .f = 0.5, .s = { "", 0 } };

        if (!attribute->required || has_attr(entry, attribute->name))
            continue;
        value.name = (inlay_str){ arena_copy(&entry->arena, attribute->name, bytes + 1),
                                  bytes }; /* the case may outlive the schema */
        if (value.name.data == NULL)
            return false;
        value.count = attribute->kind == INLAY_ATTR_INTS || attribute->kind == INLAY_ATTR_FLOATS;
        value.ints = attribute->kind == INLAY_ATTR_INTS ? &one : NULL;
        value.floats = attribute->kind == INLAY_ATTR_FLOATS ? &half : NULL;
        if (!is_plain(attribute->kind) || !case_attr(entry, &value))
            return false;
    }
    return true;
}

static void generate_from_recipe(struct generator *generator, const struct recipe *recipe, bool constants)
{
    const char *at = recipe->inputs;
    bool ok = true;
    op_case entry;

    case_init(&entry, generator->source->domain, generator->source->op_type, generator->source->opset);
    entry.out_count = recipe->outputs;
    while (ok && *at != '\0') {
        at = read_input(generator, &entry, at, constants);
        ok = at != NULL;
        at += ok && *at == ';';
    }
    for (at = recipe->attrs; ok && *at != '\0';) {
        at = read_attr(&entry, at);
        ok = at != NULL;
    }
    if (ok)
        ok = add_required(generator, &entry);
    if (ok)
        emit_case(generator, &entry);
    case_deinit(&entry);
}

/* Generates a case with the shape `first` for the first input and `other` for the others; all: optional inputs, too. */
static void generate_uniform(struct generator *generator, const char *first, const char *other, bool all)
{
    const op_schema *schema = generator->source->schema;
    uint32_t count = schema->min_inputs, outputs = schema->min_outputs > 0 ? schema->min_outputs : 1;
    char text[256] = "";
    size_t used = 0;

    if (all)
        count = schema->max_inputs == UINT32_MAX ? schema->min_inputs + 2 : schema->max_inputs;
    if (count > 8 || outputs > CASE_OUTPUTS)
        return;
    for (uint32_t i = 0; i < count && used < sizeof text; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", i > 0 ? ";" : "", i == 0 ? first : other);
    generate_from_recipe(generator, &(struct recipe){ .outputs = outputs, .inputs = text, .attrs = "" }, false);
}

static bool grows(const char *inputs)
{
    return strchr(inputs, 'n') != NULL;
}

/* Generates cases of all shapes in the current element types; few: only of the first shapes. */
static void generate_shapes(struct generator *generator, bool few)
{
    const op_schema *schema = generator->source->schema;
    bool found = false;
    uint32_t generated = 0;

    for (uint32_t i = 0; i < RECIPE_COUNT && !generator->stopped; i++) {
        const struct recipe *recipe = &recipes[i];

        if (strcmp(recipe->op_type, generator->source->op_type) != 0)
            continue;
        found = true;
        if ((generator->range->scaled && !grows(recipe->inputs)) || (few && generated >= 3))
            continue;
        generated++;
        generate_from_recipe(generator, recipe, true);
        if (strchr(recipe->inputs, '!') != NULL && !few)
            generate_from_recipe(generator, recipe, false);
    }
    for (uint32_t i = 0; i < SHAPE_COUNT && !found && !generator->stopped; i++) {
        if ((generator->range->scaled && !grows(shapes[i])) || (few && i >= 2) ||
            (generator->range->quick && !generator->range->scaled && i >= QUICK_SHAPES))
            continue;
        generate_uniform(generator, shapes[i], shapes[i], false);
        if (schema->max_inputs > schema->min_inputs && !generator->range->scaled)
            generate_uniform(generator, shapes[i], shapes[i], true);
    }
    for (uint32_t i = 0; i < SECOND_COUNT && !found && !few && !generator->range->scaled && schema->min_inputs == 2;
         i++)
        generate_uniform(generator, "3,5", second[i], false);
}

/* Examples at other sizes.
 *
 * Equal sizes of an example stay equal, so that dependent shapes still match. Either all sizes change, or only
 * the sizes of one value. */

struct resize {
    int64_t times, plus;
};
static const struct resize resizes[] = {
    { 1, 1 }, { 3, 1 }, { 0, 1 }, { 1, 0 }, { 2, 0 }, { 1, -1 }, { 0, 0 }, { 9, 5 }
};
enum { RESIZES = sizeof resizes / sizeof resizes[0], QUICK_RESIZES = 4, MOST_EXAMPLES = 8 };

static int64_t resized(int64_t dim, int64_t only, struct resize resize)
{
    int64_t to = dim * resize.times + resize.plus;

    return only >= 0 && dim != only ? dim : to < 0 ? 0 : to;
}

/* Sets the range of random integers to the range in the example, so that indices stay valid. */
static void copy_range(const inlay_tensor_view *from, case_tensor *tensor)
{
    int64_t count = from->bytes * 8 / (inlay_dtype_bits(from->dtype) > 0 ? inlay_dtype_bits(from->dtype) : 8), value;

    for (int64_t i = 0; i < count && from->dtype != INLAY_STRING; i++) {
        if (!element_integer(from->dtype, from->data, i, &value))
            return;
        tensor->low = i == 0 || value < tensor->low ? value : tensor->low;
        tensor->high = i == 0 || value > tensor->high ? value : tensor->high;
    }
}

/* Generates a case from an example at other sizes, with `inputs` inputs; inputs beyond those of the example repeat its
 * last input. only: the size to change; -1: all sizes. */
static void generate_resized(struct generator *generator, const inlay_op_example *example, uint32_t inputs,
                             int64_t only, struct resize resize)
{
    bool ok = example->output_count <= CASE_OUTPUTS;
    op_case entry;

    INLAY_CHECK(inputs == 0 || example->input_count > 0);
    case_init(&entry, generator->source->domain, generator->source->op_type, generator->source->opset);
    entry.out_count = example->output_count;
    for (uint32_t i = 0; ok && i < inputs; i++) {
        const inlay_tensor_view *from =
            &example->inputs[i < example->input_count ? i : example->input_count - (uint32_t)1];
        int64_t dims[CASE_RANK];
        case_tensor *tensor;

        for (uint32_t d = 0; d < from->rank && d < CASE_RANK; d++)
            dims[d] = resized(from->dims[d], only, resize);
        tensor = case_input(&entry, from->dtype, from->rank, dims, false);
        ok = tensor != NULL;
        if (ok)
            copy_range(from, tensor);
    }
    for (uint32_t i = 0; ok && i < example->attr_count; i++)
        ok = case_attr(&entry, INLAY_AT(inlay_attr_info, example->attrs, example->attr_stride, i));
    if (ok)
        emit_case(generator, &entry);
    case_deinit(&entry);
}

/* Is this the first dimension of its size in the inputs of the example? */
static bool is_first_of_size(const inlay_op_example *example, uint32_t input, uint32_t dim)
{
    for (uint32_t i = 0; i <= input; i++)
        for (uint32_t d = 0; d < (i == input ? dim : example->inputs[i].rank); d++)
            if (example->inputs[i].dims[d] == example->inputs[input].dims[dim])
                return false;
    return true;
}

static void generate_from_examples(struct generator *generator)
{
    const inlay_operator *op = generator->source->own;
    const uint32_t sizes = generator->range->quick ? QUICK_RESIZES : RESIZES;

    for (uint32_t input = 0; input < op->example_count && input < MOST_EXAMPLES; input++) {
        const inlay_op_example *example = INLAY_AT(inlay_op_example, op->examples, op->example_stride, input);

        if (generator->range->scaled) {
            generate_resized(generator, example, example->input_count, -1,
                             (struct resize){ 2 * generator->range->scale, 1 });
            continue;
        }
        for (uint32_t resize = 0; resize < sizes && !generator->stopped; resize++)
            generate_resized(generator, example, example->input_count, -1, resizes[resize]);
        for (uint32_t i = 0; i < example->input_count; i++)
            for (uint32_t d = 0; d < example->inputs[i].rank; d++)
                for (uint32_t resize = 0; resize < sizes && is_first_of_size(example, i, d) && !generator->stopped;
                     resize++)
                    generate_resized(generator, example, example->input_count, example->inputs[i].dims[d],
                                     resizes[resize]);
    }
}

static bool allows(const op_type_param *param, inlay_dtype dtype)
{
    return dtype != INLAY_UNDEFINED && (param->types.tensor & INLAY_DTYPE_BIT(dtype)) != 0;
}

/* The default type of a parameter: `like` if it is allowed. */
static inlay_dtype usual_type(const op_type_param *param, inlay_dtype like)
{
    static const inlay_dtype order[] = { INLAY_INT64, INLAY_FLOAT, INLAY_UINT8, INLAY_INT32, INLAY_BOOL };

    if (allows(param, like))
        return like;
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++)
        if (allows(param, order[i]))
            return order[i];
    for (inlay_dtype dtype = 1; dtype < INLAY_DTYPE_COUNT; dtype++)
        if (allows(param, dtype))
            return dtype;
    return INLAY_UNDEFINED;
}

/* The type parameter of the first input; -1: none. */
static int32_t main_param(const op_schema *schema)
{
    return schema->input_count > 0 ? schema->inputs[0].type_param : -1;
}

static void set_types(struct generator *generator, int32_t param, inlay_dtype dtype)
{
    const op_schema *schema = generator->source->schema;

    INLAY_CHECK(param < (int32_t)schema->type_count);
    for (uint32_t i = 0; i < schema->type_count && i < PARAMS; i++)
        generator->types[i] = (int32_t)i == param ? dtype : usual_type(&schema->types[i], dtype);
}

/* Sets the usual types and returns that of the first input. */
static inlay_dtype set_usual_types(struct generator *generator)
{
    const op_schema *schema = generator->source->schema;
    const int32_t first = main_param(schema);
    inlay_dtype usual = INLAY_FLOAT;

    if (first >= 0 && !allows(&schema->types[first], usual))
        usual = usual_type(&schema->types[first], INLAY_UNDEFINED);
    set_types(generator, first, usual);
    return usual;
}

bool generate_has_recipe(const char *op_type)
{
    for (uint32_t i = 0; i < RECIPE_COUNT; i++)
        if (strcmp(recipes[i].op_type, op_type) == 0)
            return true;
    return false;
}

bool generate_one(const case_source *source, const case_range *range, const char *inputs, const char *shape,
                  uint32_t outputs, const char *attrs, case_fn fn, void *user)
{
    struct generator generator = { .source = source, .range = range, .fn = fn, .user = user, .state = range->seed };

    (void)set_usual_types(&generator);
    if (inputs != NULL)
        generate_from_recipe(&generator, &(struct recipe){ .outputs = outputs, .inputs = inputs, .attrs = attrs },
                             true);
    else
        generate_uniform(&generator, shape, shape, false);
    return !generator.stopped;
}

/* Example `i` of the operator of the source. */
static const inlay_op_example *example_at(const case_source *source, uint32_t i)
{
    return INLAY_AT(inlay_op_example, source->own->examples, source->own->example_stride, i);
}

/* Would an input of the example have many elements if each of its axes grew by `more`? */
static bool grows_large(const inlay_op_example *example, int64_t more)
{
    enum { MANY = 1 << 17 };
    bool large = false;

    for (uint32_t i = 0; i < example->input_count; i++) {
        double elements = 1;

        for (uint32_t d = 0; d < example->inputs[i].rank; d++)
            elements *= (double)(example->inputs[i].dims[d] + more);
        large |= elements > MANY;
    }
    return large;
}

/* The size of the last axis of the first input that has axes; -1: none has. */
static int64_t last_axis(const inlay_op_example *example)
{
    for (uint32_t i = 0; i < example->input_count; i++)
        if (example->inputs[i].rank > 0)
            return example->inputs[i].dims[example->inputs[i].rank - 1];
    return -1;
}

void generate_larger_examples(const case_source *source, const case_range *range, int64_t more, case_fn fn, void *user)
{
    struct generator generator = { .source = source, .range = range, .fn = fn, .user = user, .state = range->seed };

    for (uint32_t i = 0; source->own != NULL && i < source->own->example_count && !generator.stopped; i++) {
        const inlay_op_example *example = example_at(source, i);

        generate_resized(&generator, example, example->input_count,
                         grows_large(example, more) ? last_axis(example) : -1, (struct resize){ 1, more });
    }
}

void generate_empty(const case_source *source, const case_range *range, case_fn fn, void *user)
{
    struct generator generator = { .source = source, .range = range, .fn = fn, .user = user, .state = range->seed };
    const struct resize nothing = { 0, 0 };

    (void)set_usual_types(&generator);
    generate_uniform(&generator, "2,0,3", "2,0,3", false);
    generate_uniform(&generator, "0", "0", false);
    for (uint32_t k = 0; k < source->own->example_count && k < MOST_EXAMPLES && !generator.stopped; k++) {
        const inlay_op_example *example = example_at(source, k);

        generate_resized(&generator, example, example->input_count, -1, nothing);
        for (uint32_t i = 0; i < example->input_count; i++)
            for (uint32_t d = 0; d < example->inputs[i].rank && !generator.stopped; d++)
                if (is_first_of_size(example, i, d))
                    generate_resized(&generator, example, example->input_count, example->inputs[i].dims[d], nothing);
    }
}

void generate_variadic(const case_source *source, const case_range *range, uint32_t inputs, case_fn fn, void *user)
{
    struct generator generator = { .source = source, .range = range, .fn = fn, .user = user, .state = range->seed };
    const uint32_t first = source->schema->input_count - 1; /* that may be repeated */
    char text[CASE_INPUTS * 4 + 1] = "";

    INLAY_CHECK(source->schema->max_inputs == UINT32_MAX && source->schema->input_count > 0 && inputs <= CASE_INPUTS);
    for (uint32_t k = 0; k < source->own->example_count && k < MOST_EXAMPLES && !generator.stopped; k++) {
        const inlay_op_example *example = example_at(source, k);

        if (example->input_count > first && inputs > first)
            generate_resized(&generator, example, inputs, -1, (struct resize){ 1, 0 });
    }
    if (source->own->example_count > 0 || generator.stopped)
        return;
    (void)set_usual_types(&generator);
    for (uint32_t i = 0; i < inputs; i++)
        memcpy(text + strlen(text), i == 0 ? "3,5" : ";3,5", i == 0 ? 4 : 5);
    generate_from_recipe(&generator,
                         &(struct recipe){ .outputs = source->schema->min_outputs > 0 ? source->schema->min_outputs : 1,
                                           .inputs = text,
                                           .attrs = "" },
                         false);
}

void generate_cases(const case_source *source, const case_range *range, case_fn fn, void *user)
{
    const op_schema *schema = source->schema;
    struct generator generator = { .source = source, .range = range, .fn = fn, .user = user, .state = range->seed };
    int32_t first = main_param(schema);
    const inlay_dtype usual = set_usual_types(&generator);

    INLAY_CHECK(range->scale >= 1);
    generate_shapes(&generator, false);
    if (source->own != NULL)
        generate_from_examples(&generator);
    if (range->scaled || first < 0)
        return;
    for (inlay_dtype dtype = 1; dtype < INLAY_DTYPE_COUNT && !generator.stopped; dtype++) {
        if (dtype == usual || !allows(&schema->types[first], dtype))
            continue;
        set_types(&generator, first, dtype);
        generate_shapes(&generator, range->quick);
    }
    /* Vary the other type parameters of inputs one at a time. */
    for (uint32_t i = 1; i < schema->input_count && !generator.stopped; i++) {
        int32_t param = schema->inputs[i].type_param;

        for (inlay_dtype dtype = 1; param >= 0 && param != first && dtype < INLAY_DTYPE_COUNT && !generator.stopped;
             dtype++) {
            if (!allows(&schema->types[param], dtype))
                continue;
            set_types(&generator, first, usual);
            if (generator.types[param] == dtype)
                continue;
            generator.types[param] = dtype;
            generate_shapes(&generator, true);
        }
    }
}

static void *schema_alloc(void *ctx, size_t bytes)
{
    return arena_alloc(ctx, bytes);
}

static bool emit_source(case_source source, const char *signature, source_fn fn, void *user)
{
    op_schema schema;
    struct arena arena = { 0 };
    bool go_on = true;

    if (op_schema_parse(signature, schema_alloc, &arena, &schema, NULL) == INLAY_OK) {
        source.schema = &schema;
        go_on = fn(user, &source);
    }
    arena_deinit(&arena);
    return go_on;
}

static bool emit_custom_operator(const inlay_operator *op, source_fn fn, void *user)
{
    return emit_source((case_source){ .domain = op->domain,
                                      .op_type = op->op_type,
                                      .opset = op->since_version,
                                      .own = op,
                                      .random = (op->flags & INLAY_OPERATOR_RANDOM) != 0 },
                       op->signature, fn, user);
}

static bool is_newest(const op_table *table, uint32_t row)
{
    INLAY_CHECK(row < table->count);
    return row + 1 == table->count || strcmp(table->rows[row + 1].op_type, table->rows[row].op_type) != 0;
}

typedef struct one_source {
    case_fn fn;
    void *user;
    const case_range *range;
} one_source;

static bool generate_all_cases(void *user, const case_source *source)
{
    const one_source *context = user;

    generate_cases(source, context->range, context->fn, context->user);
    return true;
}

void generate_operator(const inlay_operator *op, case_fn fn, void *user, const case_range *range)
{
    one_source source = { fn, user, range };

    (void)emit_custom_operator(op, generate_all_cases, &source);
}

void generate_sources(const inlay_operator *const *custom, uint32_t custom_count, const char *match, bool newest,
                      source_fn fn, void *user)
{
    uint32_t count;
    const op_table *const *tables = op_tables(&count);

    for (uint32_t table = 0; table < count; table++) {
        for (uint32_t row_index = 0; row_index < tables[table]->count; row_index++) {
            const op_row *row = &tables[table]->rows[row_index];

            if ((row->flags & (OP_HOST | OP_DEPRECATED)) != 0 || (newest && !is_newest(tables[table], row_index)) ||
                (match != NULL && fnmatch(match, row->op_type, 0) != 0))
                continue;
            if (!emit_source((case_source){ .domain = tables[table]->domain,
                                            .op_type = row->op_type,
                                            .opset = row->since_version,
                                            .random = (row->flags & OP_RANDOM) != 0 },
                             row->signature, fn, user))
                return;
        }
    }
    for (uint32_t i = 0; i < custom_count; i++)
        if (match == NULL || fnmatch(match, custom[i]->op_type, 0) == 0)
            if (!emit_custom_operator(custom[i], fn, user))
                return;
}
