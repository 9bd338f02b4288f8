#include "partition/certificate/traits.h"
#include "base/element.h"
#include "base/hash.h"
#include "inlay/check.h"
#include <math.h>
#include <string.h>

const char traits_not_finite[] = "NaN or infinity";

enum {
    EXACT = 4,
    MODULUS = 8,
    SMALL_SIZE = 2 * MODULUS, /* loops over vectors may not reach their last part up to here */
    FEW_NUMBERS = 16,         /* of a constant that stands for an attribute, such as axes */
    MOST_TEXT = 64
};

void traits_add(node_traits *traits, uint32_t kind, double level, bool is_open, const char *name)
{
    node_trait *trait = &traits->list[traits->count];

    INLAY_CHECK(kind < TRAIT_KINDS);
    for (uint32_t i = 0; i < traits->count; i++)
        if (traits->list[i].kind == kind && traits->list[i].level == level && strcmp(traits->list[i].name, name) == 0)
            return;
    if (traits->count == MOST_TRAITS || strlen(name) >= TRAIT_BYTES) {
        traits->is_cut = true;
        return;
    }
    *trait = (node_trait){ .level = level, .kind = kind, .is_open = is_open };
    (void)snprintf(trait->name, sizeof trait->name, "%s", name);
    traits->count++;
}

static void add_form_text(node_traits *traits, bool is_open, const char *format, va_list args)
{
    char name[2 * TRAIT_BYTES];

    (void)vsnprintf(name, sizeof name, format, args);
    traits_add(traits, TRAIT_FORM, 0, is_open, name);
}

INLAY_PRINTF(2, 3) static void add_form(node_traits *traits, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    add_form_text(traits, false, format, args);
    va_end(args);
}

/* A form that the node may have: sizes which are known only during the run decide. */
INLAY_PRINTF(2, 3) static void add_open_form(node_traits *traits, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    add_form_text(traits, true, format, args);
    va_end(args);
}

/* The least power of two that is not below the number; 0 for 0. */
static double power_of_two(double number)
{
    int exponent;

    if (!(number > 0) || !isfinite(number))
        return 0;
    (void)frexp(number, &exponent); /* number <= 2^exponent */
    return ldexp(1, exponent - (ldexp(1, exponent - 1) == number));
}

/* The same of four. */
static double power_of_four(double number)
{
    const double power = power_of_two(number);

    return power == 0 ? 0 : power * (ilogb(power) % 2 == 0 ? 1 : 2);
}

double traits_magnitude(inlay_dtype dtype, const void *data, int64_t count)
{
    double largest = 0, re, im;

    if (!element_is_float(dtype))
        return NAN;
    for (int64_t i = 0; i < count; i++) {
        if (dtype == INLAY_FLOAT) {
            float element;

            memcpy(&element, (const char *)data + (size_t)i * sizeof element, sizeof element);
            re = element;
        } else if (!element_number(dtype, data, i, &re, &im)) {
            return NAN;
        }
        if (isfinite(re) && fabs(re) > largest)
            largest = fabs(re);
    }
    return largest;
}

/* A number, exact up to 4, above that in powers of two: "3", "-1", "5 to 8". */
static char *number_text(int64_t number, char text[MOST_TEXT])
{
    const uint64_t size = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    uint64_t high = EXACT;

    if (size <= EXACT) {
        (void)snprintf(text, MOST_TEXT, "%lld", (long long)number);
        return text;
    }
    while (high < size && high <= UINT64_MAX / 2)
        high *= 2;
    (void)snprintf(text, MOST_TEXT, "%s%llu to %llu", number < 0 ? "minus " : "", (unsigned long long)(high / 2 + 1),
                   (unsigned long long)high);
    return text;
}

static const char *float_text(double number)
{
    return isnan(number)   ? "NaN"
           : number == 0   ? "0"
           : number == 1   ? "1"
           : number < 0    ? "below 0"
           : number < 1e-3 ? "above 0"
           : number < 1    ? "between 0.001 and 1"
                           : "above 1";
}

/* A list whose elements stand side by side, such as strides: each number that occurs, and whether they differ. */
static void add_numbers(node_traits *traits, const char *name, const int64_t *list, uint32_t count)
{
    char number[MOST_TEXT];
    bool differ = false;

    if (count == 0)
        add_form(traits, "%s []", name);
    for (uint32_t i = 0; i < count; i++) {
        add_form(traits, "%s %s", name, number_text(list[i], number));
        differ = differ || list[i] != list[0];
    }
    if (differ)
        add_form(traits, "%s unequal", name);
}

static void add_ints(node_traits *traits, const inlay_attr_info *attr)
{
    char text[TRAIT_BYTES];
    size_t used = 0;

    if (strcmp(attr->name.data, "perm") == 0) { /* the order matters */
        text[0] = '\0';
        for (uint32_t i = 0; i < attr->count && used < sizeof text; i++)
            used +=
                (size_t)snprintf(text + used, sizeof text - used, "%s%lld", i > 0 ? "," : "", (long long)attr->ints[i]);
        add_form(traits, "%s [%s]", attr->name.data, text);
        return;
    }
    add_numbers(traits, attr->name.data, attr->ints, attr->count);
}

static uint64_t hash_texts(const inlay_str *texts, uint32_t count)
{
    uint64_t hash = 0;

    for (uint32_t i = 0; i < count; i++)
        hash = hash_bytes(texts[i].data, texts[i].bytes, hash + 1);
    return hash;
}

/* Is it the number of groups of a convolution with one channel each? */
static bool is_depthwise(const struct graph *graph, const inlay_node_info *node, const inlay_attr_info *attr)
{
    const inlay_value_info *x =
        node->input_count > 0 && node->inputs[0] != INLAY_NONE ? &graph->values[node->inputs[0]].info : NULL;

    return attr->i > 1 && strcmp(attr->name.data, "group") == 0 && x != NULL && x->rank != INLAY_RANK_UNKNOWN &&
           x->rank > 2 && x->dims[1].kind == INLAY_DIM_FIXED && x->dims[1].value == attr->i;
}

static void add_attr(node_traits *traits, const struct graph *graph, const inlay_node_info *node,
                     const inlay_attr_info *attr)
{
    const char *name = attr->name.data;
    char number[MOST_TEXT];

    switch (attr->kind) {
    case INLAY_ATTR_INT:
        if (is_depthwise(graph, node, attr))
            add_form(traits, "%s of one channel each", name);
        else
            add_form(traits, "%s %s", name, number_text(attr->i, number));
        break;
    case INLAY_ATTR_FLOAT:
        add_form(traits, "%s %s", name, float_text(attr->f));
        break;
    case INLAY_ATTR_STRING:
        if (attr->s.bytes < MOST_TEXT)
            add_form(traits, "%s '%s'", name, attr->s.data);
        else
            add_form(traits, "%s with hash %016llx", name, (unsigned long long)hash_texts(&attr->s, 1));
        break;
    case INLAY_ATTR_INTS:
        add_ints(traits, attr);
        break;
    case INLAY_ATTR_FLOATS:
        for (uint32_t i = 0; i < attr->count; i++)
            add_form(traits, "%s %s", name, float_text(attr->floats[i]));
        add_form(traits, "%s of length %s", name, number_text(attr->count, number));
        break;
    case INLAY_ATTR_STRINGS:
        add_form(traits, "%s with hash %016llx", name, (unsigned long long)hash_texts(attr->strings, attr->count));
        break;
    case INLAY_ATTR_TENSOR:
        add_form(traits, "%s %s of rank %u", name, inlay_dtype_name(attr->tensor->dtype), attr->tensor->rank);
        break;
    default:
        traits->is_cut = true;
    }
}

/* The weights of a convolution, [M, C / group, kernel...]: attribute kernel_shape repeats their sizes. NULL: none. */
static const inlay_value_info *find_weights(const struct graph *graph, const graph_node *node)
{
    const op_schema *schema = node->schema;

    for (uint32_t i = 0; schema != NULL && i < schema->input_count && i < node->info.input_count; i++)
        if ((strcmp(schema->inputs[i].name, "W") == 0 || strcmp(schema->inputs[i].name, "w") == 0) &&
            node->info.inputs[i] != INLAY_NONE && graph->values[node->info.inputs[i]].info.rank != INLAY_RANK_UNKNOWN &&
            graph->values[node->info.inputs[i]].info.rank > 2)
            return &graph->values[node->info.inputs[i]].info;
    return NULL;
}

/* The window of a convolution, as attribute kernel_shape. */
static void add_kernel(node_traits *traits, const inlay_value_info *weights)
{
    int64_t kernel[INLAY_MAX_RANK];

    for (uint32_t d = 2; d < weights->rank; d++) {
        kernel[d - 2] = weights->dims[d].value;
        traits->is_cut = traits->is_cut || weights->dims[d].kind != INLAY_DIM_FIXED;
    }
    if (!traits->is_cut)
        add_numbers(traits, "kernel_shape", kernel, weights->rank - 2);
}

/* An attribute that the node does not have. Lists that say nothing special then are the same as those that do. */
static void add_absent(node_traits *traits, const char *name)
{
    static const struct {
        const char *name;
        int64_t number;
    } usual[] = { { "strides", 1 }, { "dilations", 1 }, { "pads", 0 }, { "output_padding", 0 } };

    for (size_t i = 0; i < sizeof usual / sizeof usual[0]; i++)
        if (strcmp(usual[i].name, name) == 0) {
            add_numbers(traits, name, &usual[i].number, 1);
            return;
        }
    add_form(traits, "no %s", name);
}

static void add_attrs(node_traits *traits, const struct graph *graph, const graph_node *node)
{
    const inlay_value_info *weights = find_weights(graph, node);
    const op_schema *schema = node->schema;

    for (uint32_t i = 0; i < node->info.attr_count; i++)
        if (weights == NULL || strcmp(node->info.attrs[i].name.data, "kernel_shape") != 0)
            add_attr(traits, graph, &node->info, &node->info.attrs[i]);
    for (uint32_t k = 0; schema != NULL && k < schema->attr_count; k++) {
        bool found = false;

        for (uint32_t i = 0; i < node->info.attr_count; i++)
            found = found || strcmp(node->info.attrs[i].name.data, schema->attrs[k].name) == 0;
        if (weights != NULL && strcmp(schema->attrs[k].name, "kernel_shape") == 0)
            add_kernel(traits, weights);
        else if (!found)
            add_absent(traits, schema->attrs[k].name);
    }
}

/* The formal name of an input; all inputs of a variadic formal have the same. */
static const char *formal_name(const graph_node *node, uint32_t input, char text[MOST_TEXT])
{
    const op_schema *schema = node->schema;

    if (schema != NULL && schema->input_count > 0)
        return schema->inputs[input < schema->input_count ? input : schema->input_count - 1].name;
    (void)snprintf(text, MOST_TEXT, "input %u", input);
    return text;
}

/* "types float float - -> float"; of several equal types in a row for one formal only the first. */
static void add_types(node_traits *traits, const struct graph *graph, const graph_node *node)
{
    const uint32_t formals = node->schema != NULL ? node->schema->input_count : node->info.input_count;
    char text[2 * TRAIT_BYTES] = "types";
    size_t used = strlen(text);

    for (uint32_t side = 0; side < 2; side++) {
        const uint32_t count = side == 0 ? node->info.input_count : node->info.output_count;
        const uint32_t *values = side == 0 ? node->info.inputs : node->info.outputs;
        inlay_dtype before = INLAY_UNDEFINED;

        for (uint32_t i = 0; i < count && used < sizeof text; i++) {
            const inlay_dtype dtype = values[i] == INLAY_NONE ? INLAY_UNDEFINED : graph->values[values[i]].info.dtype;

            if (side == 0 && i >= formals && dtype == before)
                continue;
            before = dtype;
            used += (size_t)snprintf(text + used, sizeof text - used, " %s",
                                     values[i] == INLAY_NONE ? "-" : inlay_dtype_name(dtype));
        }
        if (side == 0 && used < sizeof text)
            used += (size_t)snprintf(text + used, sizeof text - used, " ->");
    }
    add_form(traits, "%s", text);
}

static bool is_fixed(const inlay_value_info *value, uint32_t d)
{
    return value->dims[d].kind == INLAY_DIM_FIXED;
}

/* The remainder of a size, and whether it is above SMALL_SIZE. */
static double remainder_level(int64_t size)
{
    return (double)(size % MODULUS + (size > SMALL_SIZE ? MODULUS : 0));
}

/* Adds the form if a size is 1; it is open if no known one is, and others are not known. */
static void add_one(node_traits *traits, bool has_one, bool is_open, const char *name, const char *form)
{
    if (has_one)
        add_form(traits, "%s with %s of 1", name, form);
    else if (is_open)
        add_open_form(traits, "%s with %s of 1", name, form);
}

/* Adds the sizes of an input. */
static void add_sizes(node_traits *traits, const inlay_value_info *value, const char *name)
{
    char text[TRAIT_BYTES];
    bool has_one = false, is_empty = false, has_open = false;
    const uint32_t last = value->rank - 1;

    for (uint32_t d = 0; d < value->rank; d++) {
        const bool is_open = !is_fixed(value, d);
        const int64_t size = is_open ? 0 : value->dims[d].value;

        has_open = has_open || is_open;
        has_one = has_one || size == 1;
        is_empty = is_empty || (!is_open && size == 0);
        if (!is_open && size == 0)
            continue;
        (void)snprintf(text, sizeof text, "size %u of %s", d, name);
        traits_add(traits, TRAIT_REMAINDER, is_open ? 0 : remainder_level(size), is_open, text);
        traits_add(traits, TRAIT_AMOUNT, power_of_two((double)size), is_open, text);
    }
    if (is_empty)
        add_form(traits, "%s empty", name);
    add_one(traits, has_one, has_open, name, "a size");
    if (value->rank > 0)
        add_one(traits, is_fixed(value, last) && value->dims[last].value == 1, !is_fixed(value, last), name,
                "a last size");
}

/* Adds that the last two sizes of a value are equal, as those of a square matrix. */
static void add_square(node_traits *traits, const inlay_value_info *value, const char *name)
{
    const uint32_t last = value->rank - 1;

    if (value->rank == INLAY_RANK_UNKNOWN || value->rank < 2)
        return;
    if (!is_fixed(value, last) || !is_fixed(value, last - 1))
        add_open_form(traits, "%s square", name);
    else if (value->dims[last].value == value->dims[last - 1].value)
        add_form(traits, "%s square", name);
}

/* Adds which axes of the output are longer or shorter than those of the input, if both have the same rank. */
static void add_growth(node_traits *traits, const inlay_value_info *from, const inlay_value_info *to)
{
    for (uint32_t d = 0; from->rank == to->rank && from->rank != INLAY_RANK_UNKNOWN && d < from->rank; d++) {
        const int64_t growth = to->dims[d].value - from->dims[d].value;

        if (!is_fixed(from, d) || !is_fixed(to, d)) {
            add_open_form(traits, "longer axis %u", d);
            add_open_form(traits, "shorter axis %u", d);
        } else if (growth != 0) {
            add_form(traits, "%s axis %u", growth > 0 ? "longer" : "shorter", d);
        }
    }
}

/* Raises the largest number of elements and the largest size. */
static void add_largest(const inlay_value_info *value, double largest[2], bool *io_open)
{
    double elements = 1;

    for (uint32_t d = 0; d < value->rank; d++) {
        const double size = is_fixed(value, d) ? (double)value->dims[d].value : 1;

        *io_open = *io_open || !is_fixed(value, d);
        elements *= size;
        largest[1] = fmax(largest[1], is_fixed(value, d) ? size : 0);
    }
    largest[0] = fmax(largest[0], elements);
}

/* Integers that later versions of operators take as an input instead of an attribute, such as axes. */
static void add_constant_numbers(node_traits *traits, const inlay_value_info *value, const char *name)
{
    const bool is_short = value->dtype == INLAY_INT32;
    int64_t count = 1;

    if ((value->flags & INLAY_VALUE_CONSTANT) == 0 || value->data == NULL ||
        (value->dtype != INLAY_INT64 && !is_short) || value->rank > 1)
        return;
    count = value->rank == 1 ? value->dims[0].value : 1;
    for (int64_t i = 0; i < count && count <= FEW_NUMBERS; i++) {
        int64_t number = 0;
        int32_t narrow;

        memcpy(&narrow, (const char *)value->data + (size_t)i * (is_short ? sizeof narrow : sizeof number),
               sizeof narrow);
        if (!is_short)
            memcpy(&number, (const char *)value->data + (size_t)i * sizeof number, sizeof number);
        else
            number = narrow;
        if (number < -1)
            add_form(traits, "%s below -1", name);
        else if (number > 2)
            add_form(traits, "%s above 2", name);
        else
            add_form(traits, "%s %d", name, (int)number);
    }
}

/* The same for a constant, whose elements are in the graph. */
static double constant_magnitude(const inlay_value_info *value)
{
    int64_t count = 1;

    if ((value->flags & INLAY_VALUE_CONSTANT) == 0 || value->data == NULL)
        return NAN;
    for (uint32_t d = 0; d < value->rank; d++)
        count *= value->dims[d].value; /* no overflow: the elements are in memory */
    return traits_magnitude(value->dtype, value->data, count);
}

static void add_input(node_traits *traits, const inlay_value_info *value, const char *name, double magnitude,
                      double largest[2], bool *io_open)
{
    char text[TRAIT_BYTES];

    if (value->kind != INLAY_VALUE_TENSOR || value->rank == INLAY_RANK_UNKNOWN || value->dtype == INLAY_UNDEFINED) {
        traits->is_cut = true;
        return;
    }
    add_form(traits, "%s of rank %u", name, value->rank);
    add_form(traits, "%s %s", name, (value->flags & INLAY_VALUE_CONSTANT) != 0 ? "constant" : "computed");
    add_largest(value, largest, io_open);
    add_sizes(traits, value, name);
    add_square(traits, value, name);
    add_constant_numbers(traits, value, name);
    if (element_is_float(value->dtype)) {
        (void)snprintf(text, sizeof text, "values of %s", name);
        traits_add(traits, TRAIT_AMOUNT, isnan(magnitude) ? 0 : power_of_four(magnitude), isnan(magnitude), text);
    }
}

void traits_list(const struct graph *graph, uint32_t node_index, traits_magnitude_fn magnitude, void *user,
                 node_traits *out)
{
    const graph_node *node = graph->nodes[node_index];
    double largest[2] = { 0, 0 }; /* elements of a tensor, size */
    bool is_open = false;
    char name[MOST_TEXT], number[MOST_TEXT];

    INLAY_CHECK(node_index < graph->node_count);
    out->count = 0;
    out->is_cut = node->body_count > 0;
    traits_add(out, TRAIT_REMAINDER, node->info.since_version, false, "version");
    add_types(out, graph, node);
    for (uint32_t i = 0; i < node->info.input_count; i++) {
        const inlay_value_info *value =
            node->info.inputs[i] == INLAY_NONE ? NULL : &graph->values[node->info.inputs[i]].info;

        if (value == NULL)
            add_form(out, "%s omitted", formal_name(node, i, name));
        else
            add_input(out, value, formal_name(node, i, name),
                      magnitude != NULL ? magnitude(user, i) : constant_magnitude(value), largest, &is_open);
    }
    for (uint32_t i = 0; i < node->info.input_count; i++)
        for (uint32_t k = 0; k < i && node->info.inputs[i] != INLAY_NONE; k++)
            if (node->info.inputs[k] == node->info.inputs[i]) {
                char other[MOST_TEXT];

                add_form(out, "%s is %s", formal_name(node, i, name), formal_name(node, k, other));
            }
    for (uint32_t i = node->info.input_count; node->schema != NULL && i < node->schema->input_count; i++)
        add_form(out, "%s omitted", node->schema->inputs[i].name);
    if (node->schema != NULL && node->schema->input_count > 0 &&
        node->schema->inputs[node->schema->input_count - 1].option >= OP_VARIADIC)
        add_form(out, "inputs %s", number_text(node->info.input_count, number));
    for (uint32_t o = 0; o < node->info.output_count; o++) {
        const inlay_value_info *value =
            node->info.outputs[o] == INLAY_NONE ? NULL : &graph->values[node->info.outputs[o]].info;

        if (value != NULL && value->rank != INLAY_RANK_UNKNOWN)
            add_largest(value, largest, &is_open);
        if (value != NULL && o == 0)
            add_square(out, value, "result");
    }
    if (node->info.input_count > 0 && node->info.inputs[0] != INLAY_NONE && node->info.output_count > 0 &&
        node->info.outputs[0] != INLAY_NONE)
        add_growth(out, &graph->values[node->info.inputs[0]].info, &graph->values[node->info.outputs[0]].info);
    add_attrs(out, graph, node);
    traits_add(out, TRAIT_AMOUNT, power_of_four(largest[0]), is_open, "elements");
    traits_add(out, TRAIT_AMOUNT, power_of_four(largest[1]), is_open, "largest size");
    if (magnitude == NULL)
        traits_add(out, TRAIT_AMOUNT, 1, true, traits_not_finite);
}

/* Two hashes with different seeds, as a number of 128 bits. */
struct exact {
    uint64_t hash[2];
};

static void add_exact(struct exact *exact, const void *data, size_t bytes)
{
    exact->hash[0] = hash_bytes(data, bytes, exact->hash[0]);
    exact->hash[1] = hash_bytes(data, bytes, exact->hash[1] ^ UINT64_C(0x5851f42d4c957f2d));
}

static void add_exact_number(struct exact *exact, uint64_t number)
{
    add_exact(exact, &number, sizeof number);
}

static void add_exact_text(struct exact *exact, const inlay_str *text)
{
    add_exact_number(exact, text->bytes);
    add_exact(exact, text->data, (size_t)text->bytes);
}

static bool add_exact_data(struct exact *exact, inlay_dtype dtype, const void *data, int64_t count)
{
    enum { FEW = 64 };

    add_exact_number(exact, dtype);
    add_exact_number(exact, (uint64_t)count);
    if (data == NULL && count > 0)
        return false;
    if (dtype == INLAY_STRING)
        for (int64_t i = 0; i < count; i++)
            add_exact_text(exact, (const inlay_str *)data + i);
    else if (element_is_float(dtype) && count > FEW)
        add_exact_number(exact, (uint64_t)power_of_four(traits_magnitude(dtype, data, count)));
    else
        add_exact(exact, data, (size_t)(((uint64_t)count * inlay_dtype_bits(dtype) + 7) / 8));
    return true;
}

static bool add_exact_value(struct exact *exact, const inlay_value_info *value)
{
    const bool is_constant = (value->flags & INLAY_VALUE_CONSTANT) != 0;
    int64_t count = 1;

    add_exact_number(exact, is_constant);
    add_exact_number(exact, value->dtype);
    add_exact_number(exact, value->rank);
    if (value->kind != INLAY_VALUE_TENSOR || value->rank == INLAY_RANK_UNKNOWN || value->dtype == INLAY_UNDEFINED)
        return false;
    for (uint32_t d = 0; d < value->rank; d++) {
        if (value->dims[d].kind != INLAY_DIM_FIXED)
            return false;
        add_exact_number(exact, (uint64_t)value->dims[d].value);
        count *= is_constant ? value->dims[d].value : 0; /* no overflow: the elements are in memory */
    }
    return !is_constant || add_exact_data(exact, value->dtype, value->data, count);
}

static bool add_exact_attr(struct exact *exact, const inlay_attr_info *attr)
{
    int64_t count = 1;

    add_exact_text(exact, &attr->name);
    add_exact_number(exact, (uint64_t)attr->kind);
    add_exact_number(exact, attr->count);
    switch (attr->kind) {
    case INLAY_ATTR_INT:
        add_exact(exact, &attr->i, sizeof attr->i);
        return true;
    case INLAY_ATTR_FLOAT:
        add_exact(exact, &attr->f, sizeof attr->f);
        return true;
    case INLAY_ATTR_STRING:
        add_exact_text(exact, &attr->s);
        return true;
    case INLAY_ATTR_INTS:
        add_exact(exact, attr->ints, attr->count * sizeof *attr->ints);
        return true;
    case INLAY_ATTR_FLOATS:
        add_exact(exact, attr->floats, attr->count * sizeof *attr->floats);
        return true;
    case INLAY_ATTR_STRINGS:
        for (uint32_t i = 0; i < attr->count; i++)
            add_exact_text(exact, &attr->strings[i]);
        return true;
    case INLAY_ATTR_TENSOR:
        for (uint32_t d = 0; d < attr->tensor->rank; d++) {
            add_exact_number(exact, (uint64_t)attr->tensor->dims[d]);
            count *= attr->tensor->dims[d];
        }
        return add_exact_data(exact, attr->tensor->dtype, attr->tensor->data, count);
    default:
        return false;
    }
}

bool traits_exact(const struct graph *graph, uint32_t node_index, char out_text[TRAITS_EXACT_BYTES])
{
    const graph_node *node = graph->nodes[node_index];
    const inlay_node_info *info = &node->info;
    uint32_t inputs = info->input_count;
    struct exact exact = { { 0, 1 } }, attrs = { { 0, 0 } };

    if (node->body_count > 0)
        return false;
    add_exact_text(&exact, &info->domain);
    add_exact_text(&exact, &info->op_type);
    add_exact_number(&exact, info->since_version);
    while (inputs > 0 && info->inputs[inputs - 1] == INLAY_NONE)
        inputs--;
    for (uint32_t i = 0; i < inputs; i++) {
        uint32_t same = 0; /* the first input with this value */

        while (info->inputs[same] != info->inputs[i])
            same++;
        add_exact_number(&exact, info->inputs[i] == INLAY_NONE ? INLAY_NONE : same);
        if (info->inputs[i] != INLAY_NONE && !add_exact_value(&exact, &graph->values[info->inputs[i]].info))
            return false;
    }
    for (uint32_t o = 0; o < info->output_count; o++) {
        add_exact_number(&exact, info->outputs[o] == INLAY_NONE);
        if (info->outputs[o] != INLAY_NONE && !add_exact_value(&exact, &graph->values[info->outputs[o]].info))
            return false;
    }
    for (uint32_t i = 0; i < info->attr_count; i++) { /* their order has no meaning */
        struct exact one = { { 0, 1 } };

        if (!add_exact_attr(&one, &info->attrs[i]))
            return false;
        attrs.hash[0] += one.hash[0];
        attrs.hash[1] += one.hash[1];
    }
    add_exact(&exact, attrs.hash, sizeof attrs.hash);
    (void)snprintf(out_text, TRAITS_EXACT_BYTES, "%016llx%016llx", (unsigned long long)exact.hash[0],
                   (unsigned long long)exact.hash[1]);
    return true;
}

bool traits_in_range(const node_trait *trait, const trait_range *range)
{
    return trait->kind == range->kind &&
           (trait->is_open || (trait->level >= range->low && trait->level <= range->high)) &&
           strcmp(trait->name, range->name) == 0;
}

char *trait_range_text(const trait_range *range, char *text, size_t bytes)
{
    if (range->kind == TRAIT_FORM || strcmp(range->name, traits_not_finite) == 0)
        (void)snprintf(text, bytes, "%s", range->name);
    else if (range->kind == TRAIT_REMAINDER && strcmp(range->name, "version") == 0)
        (void)snprintf(text, bytes, "version %g", range->low);
    else if (range->kind == TRAIT_REMAINDER)
        (void)snprintf(text, bytes, "%s 8 n + %g%s", range->name, fmod(range->low, MODULUS),
                       range->low < MODULUS ? "" : " above 16");
    else if (isfinite(range->high))
        (void)snprintf(text, bytes, "%s up to %.10g", range->name, range->high);
    else
        (void)snprintf(text, bytes, "%s above %.10g", range->name, range->low / 4);
    return text;
}

char *trait_text(const node_trait *trait, char *text, size_t bytes)
{
    const trait_range range = { trait->kind, trait->name, trait->level, trait->level };

    return trait_range_text(&range, text, bytes);
}
