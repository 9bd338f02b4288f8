#include "check/mutate.h"
#include "base/random.h"
#include "check/special.h"
#include "inlay/check.h"
#include <string.h>

enum {
    MOST_SIZE = 67, /* more than four vectors of 16 floats, with every remainder */
    MOST_NUMBER = 17,
    MOST_VARIADIC = 8,
    MOST_ELEMENTS = 8192,
    MOST_CHANGES = 3,
    NUMBERS = 2 * CASE_RANK
};

/* A case that is being changed. */
struct change {
    const case_source *source;
    op_case *entry;
    uint64_t *state;
    bool is_wide;
};

static const struct {
    const char *attribute, *words; /* separated by '|' */
} words[] = {
#define WORDS(attribute, words) { attribute, words },
#include "check/words.def"
#undef WORDS
};

static uint32_t below(const struct change *change, uint32_t count)
{
    INLAY_CHECK(count > 0);
    return (uint32_t)random_below(change->state, count);
}

#define PICK(change, list) ((list)[below(change, sizeof(list) / sizeof((list)[0]))])

/* A random input that is present, and has dims if `sized` is set. NULL: none was found. */
static case_tensor *pick_input(const struct change *change, bool sized)
{
    op_case *entry = change->entry;

    for (uint32_t attempt = 0; attempt < 4 && entry->in_count > 0; attempt++) {
        case_tensor *tensor = &entry->in[below(change, entry->in_count)];

        if (tensor->dtype != INLAY_UNDEFINED && (!sized || tensor->rank > 0))
            return tensor;
    }
    return NULL;
}

/* The value of a number attribute, if it has one above 1, otherwise 2: a factor of some sizes. */
static int64_t pick_factor(const struct change *change)
{
    const op_case *entry = change->entry;
    const inlay_attr_info *attr = entry->attr_count > 0 ? &entry->attrs[below(change, entry->attr_count)] : NULL;

    return attr != NULL && attr->kind == INLAY_ATTR_INT && attr->i > 1 && attr->i <= MOST_SIZE ? attr->i : 2;
}

/* Mostly a small size; sometimes one computed from `now`, or a size of an input. */
static int64_t pick_size(const struct change *change, int64_t now)
{
    const case_tensor *other = pick_input(change, true);

    switch (below(change, 10)) {
    case 0:
        return now * pick_factor(change);
    case 1:
        return now / pick_factor(change);
    case 2:
        return now + 1;
    case 3:
        return below(change, 4) > 0;
    case 4:
        return 1;
    case 5:
        return 1 + below(change, MOST_SIZE);
    case 6: /* equal sizes, such as those of a square matrix */
        return other != NULL ? other->dims[below(change, other->rank)] : now;
    case 7:
        return 1 + below(change, change->is_wide ? MOST_SIZE : 9);
    default:
        return 1 + below(change, 9);
    }
}

/* All dims of one size change together, as dependent shapes do, or one dim alone. */
static void change_size(const struct change *change)
{
    case_tensor *tensor = pick_input(change, true);
    int64_t *dim, from, to;

    if (tensor == NULL)
        return;
    dim = &tensor->dims[below(change, tensor->rank)];
    from = *dim;
    to = pick_size(change, from);
    if (below(change, 3) == 0) {
        *dim = below(change, 2) == 0 ? 1 : to; /* 1: broadcast */
        return;
    }
    for (uint32_t i = 0; i < change->entry->in_count; i++)
        for (uint32_t d = 0; d < change->entry->in[i].rank; d++)
            if (change->entry->in[i].dims[d] == from)
                change->entry->in[i].dims[d] = to;
}

static void insert_dim(case_tensor *tensor, uint32_t at, int64_t size)
{
    if (tensor->rank == CASE_RANK || at > tensor->rank)
        return;
    memmove(&tensor->dims[at + 1], &tensor->dims[at], (tensor->rank - at) * sizeof tensor->dims[0]);
    tensor->dims[at] = size;
    tensor->rank++;
}

static void remove_dim(case_tensor *tensor, uint32_t at)
{
    if (at >= tensor->rank)
        return;
    tensor->rank--;
    memmove(&tensor->dims[at], &tensor->dims[at + 1], (tensor->rank - at) * sizeof tensor->dims[0]);
}

/* Adds dims to one input, or to all, or removes one. Lists of axes and sizes keep rank 1. */
static void change_rank(const struct change *change)
{
    const bool all = below(change, 2) == 0, more = below(change, 3) > 0;
    const uint32_t added = below(change, 3) > 0 ? 1 : 2 + below(change, 4);
    op_case *entry = change->entry;
    const int64_t size = 1 + below(change, below(change, 2) == 0 ? 3 : 9);
    uint32_t first = entry->in_count > 0 ? below(change, entry->in_count) : 0, at;

    for (uint32_t i = 0; i < entry->in_count && entry->in[first].given_count > 0; i++)
        first = (first + 1) % entry->in_count;
    at = entry->in_count > 0 ? below(change, entry->in[first].rank + 1) : 0;
    for (uint32_t i = 0; i < entry->in_count; i++) {
        case_tensor *tensor = &entry->in[i];

        if (tensor->given_count > 0 || tensor->dtype == INLAY_UNDEFINED || (i != first && !all))
            continue;
        for (uint32_t k = 0; k < added && more; k++)
            insert_dim(tensor, at, size);
        for (uint32_t k = 0; k < added && !more; k++)
            remove_dim(tensor, at < tensor->rank ? at : 0);
    }
}

/* Changes one of the fixed elements, such as an axis, a size or a scale. */
static void change_given(const struct change *change)
{
    static const double integers[] = { 0, 1, 2, 3, 4, -1, -2, -3, 1000, -1000, 9e18, -9e18 };
    /* Exact in binary: a scale that is rounded would put coordinates next to a tie. */
    static const double factors[] = { 0.5, 0.75, 1.25, 1.5, 2, 3 };
    op_case *entry = change->entry;
    uint32_t at = entry->in_count > 0 ? below(change, entry->in_count) : 0;
    case_tensor *tensor, *other;
    double *number;

    for (uint32_t i = 0; i < entry->in_count && entry->in[at].given_count == 0; i++)
        at = (at + 1) % entry->in_count;
    if (entry->in_count == 0 || entry->in[at].given_count == 0)
        return;
    tensor = &entry->in[at];
    other = &entry->in[below(change, entry->in_count)];
    if (other->dtype == tensor->dtype && other->given_count == tensor->given_count && below(change, 4) == 0) {
        const double *given = tensor->given; /* such as a lower bound above the upper one */

        tensor->given = other->given;
        other->given = given;
        return;
    }
    number = (double *)(uintptr_t)&tensor->given[below(change, tensor->given_count)];
    if (inlay_dtype_bits(tensor->dtype) > 0 && tensor->dtype != INLAY_INT64 && tensor->dtype != INLAY_INT32)
        *number *= PICK(change, factors);
    else
        *number = below(change, 2) == 0 ? PICK(change, integers) : *number + (below(change, 2) == 0 ? 1 : -1);
}

static inlay_dtype pick_type(const struct change *change, const op_type_param *param)
{
    inlay_dtype dtype = (inlay_dtype)below(change, INLAY_DTYPE_COUNT);

    for (uint32_t i = 0; i < INLAY_DTYPE_COUNT; i++, dtype = (dtype + 1) % INLAY_DTYPE_COUNT)
        if (dtype != INLAY_UNDEFINED && (param->types.tensor & INLAY_DTYPE_BIT(dtype)) != 0)
            return dtype;
    return INLAY_UNDEFINED;
}

/* Another element type for all inputs that share a type. */
static void change_type(const struct change *change)
{
    const op_schema *schema = change->source->schema;
    const op_formal *formal =
        change->entry->in_count > 0 ? op_input_formal(schema, below(change, change->entry->in_count)) : NULL;
    inlay_dtype dtype;

    if (formal == NULL || formal->type_param < 0)
        return;
    dtype = pick_type(change, &schema->types[formal->type_param]);
    for (uint32_t i = 0; dtype != INLAY_UNDEFINED && i < change->entry->in_count; i++) {
        const op_formal *other = op_input_formal(schema, i);

        if (other != NULL && other->type_param == formal->type_param && change->entry->in[i].dtype != INLAY_UNDEFINED)
            change->entry->in[i].dtype = dtype;
    }
}

/* Omits an optional input, or adds the next one: with the dims of another input, one of its sizes, or none. */
static void change_optional(const struct change *change)
{
    op_case *entry = change->entry;
    const op_schema *schema = change->source->schema;
    const op_formal *formal;
    const case_tensor *like;
    inlay_dtype dtype = INLAY_UNDEFINED;
    uint32_t at;
    case_tensor *added;

    if (entry->in_count > schema->min_inputs && below(change, 2) == 0) {
        at = schema->min_inputs + below(change, entry->in_count - schema->min_inputs);
        if (at + 1 == entry->in_count)
            entry->in_count--;
        else if (op_input_formal(schema, at)->option == OP_OPTIONAL)
            entry->in[at].dtype = INLAY_UNDEFINED;
        return;
    }
    formal = op_input_formal(schema, entry->in_count);
    like = pick_input(change, false);
    if (formal == NULL || formal->type_param < 0 || like == NULL)
        return;
    for (uint32_t i = 0; i < entry->in_count && dtype == INLAY_UNDEFINED; i++)
        if (op_input_formal(schema, i)->type_param == formal->type_param)
            dtype = entry->in[i].dtype;
    if (dtype == INLAY_UNDEFINED)
        dtype = pick_type(change, &schema->types[formal->type_param]);
    added = case_input(entry, dtype, like->rank, like->dims, false);
    for (uint32_t i = below(change, MOST_VARIADIC); added != NULL && formal->option >= OP_VARIADIC && i > 0; i--)
        (void)case_input(entry, dtype, like->rank, like->dims, false);
    if (added == NULL || below(change, 2) == 0 || like->given_count > 0)
        return;
    if (added->rank > 0)
        added->dims[0] = added->dims[below(change, added->rank)];
    added->rank = added->rank > 0 && below(change, 4) > 0;
}

/* Requests more or fewer of the outputs that may be omitted. */
static void change_outputs(const struct change *change)
{
    const op_schema *schema = change->source->schema;
    const uint32_t most = schema->max_outputs < CASE_OUTPUTS ? schema->max_outputs : CASE_OUTPUTS;
    const uint32_t least = schema->min_outputs > 0 ? schema->min_outputs : 1;

    if (most > least && schema->max_outputs != UINT32_MAX)
        change->entry->out_count = least + below(change, most - least + 1);
}

/* Are results for numbers of this magnitude defined, and found alike by each kernel? Equal numbers are not for
 * operators that choose among them; only sums, quotients and moves are compared for huge ones. */
static bool may_have(const op_case *entry, uint32_t magnitude)
{
    const uint32_t rules = special_rules(entry->op_type, 0);

    if (magnitude == CASE_FEW)
        return rules != 0 && (strcmp(entry->op_type, "MaxPool") != 0 || entry->out_count == 1);
    return magnitude != CASE_HUGE || ((rules & SPECIAL_LOST) == 0 && (rules & (SPECIAL_VALUE | SPECIAL_ONE_NAN)) != 0);
}

/* Another magnitude of the random elements of an input. The plugin's own operators may permit certain values only. */
static void change_values(const struct change *change)
{
    case_tensor *tensor = pick_input(change, false);
    const uint32_t magnitude = below(change, CASE_MAGNITUDES);

    if (tensor != NULL && change->source->own == NULL && may_have(change->entry, magnitude))
        tensor->magnitude = magnitude;
}

static void change_constant(const struct change *change)
{
    case_tensor *tensor = pick_input(change, false);

    if (tensor != NULL && tensor->dtype != INLAY_STRING)
        tensor->constant = !tensor->constant;
}

/* Lets the node read the value of an earlier input at another one, too, or no longer. */
static void change_same(const struct change *change)
{
    op_case *entry = change->entry;
    uint32_t at, from;

    if (entry->in_count < 2)
        return;
    at = 1 + below(change, entry->in_count - 1);
    from = below(change, at);
    if (entry->in[at].dtype == entry->in[from].dtype)
        entry->in[at].same_as = entry->in[at].same_as > 0 ? 0 : from + 1;
}

/* Makes inputs that read the value of an earlier one equal to it, or gives them their own if it is a list. */
static void settle_same(op_case *entry)
{
    for (uint32_t i = 0; i < entry->in_count; i++) {
        case_tensor *tensor = &entry->in[i];
        const case_tensor *same = tensor->same_as > 0 ? &entry->in[tensor->same_as - 1] : tensor;

        if (same == tensor)
            continue;
        if (same->dtype == INLAY_UNDEFINED || tensor->dtype == INLAY_UNDEFINED || same->given_count > 0 ||
            tensor->given_count > 0 || same->same_as > 0) {
            tensor->same_as = 0;
            continue;
        }
        tensor->dtype = same->dtype;
        tensor->rank = same->rank;
        tensor->constant = same->constant;
        memcpy(tensor->dims, same->dims, sizeof tensor->dims);
    }
}

static uint32_t rank_of(const op_case *entry)
{
    return entry->in_count > 0 ? entry->in[0].rank : 0;
}

static int64_t pick_int(const struct change *change, int64_t now)
{
    const case_tensor *tensor = pick_input(change, true);

    switch (below(change, 5)) {
    case 0:
        return now == 0; /* a switch */
    case 1:
        return tensor != NULL ? tensor->dims[below(change, tensor->rank)] : 2;
    case 2:
        return -1 - (int64_t)below(change, 3);
    default:
        return below(change, 5);
    }
}

/* Small numbers: a list of `count` of them, a permutation, or an ascending list of axes. Returns its length. */
static uint32_t pick_list(const struct change *change, int64_t *out)
{
    const uint32_t rank = rank_of(change->entry), spatial = rank > 2 ? rank - 2 : 1, kind = below(change, 4);
    const uint32_t counts[] = { spatial, spatial, 2 * spatial, rank, 1 };
    uint32_t count = 0;

    for (uint32_t i = 0; kind < 2 && i < rank; i++) { /* axes, or a permutation */
        const bool taken = kind == 1 || below(change, 2) == 0;
        const uint32_t at = kind == 1 ? below(change, count + 1) : count;

        if (!taken)
            continue;
        memmove(&out[at + 1], &out[at], (count - at) * sizeof *out);
        out[at] = kind == 0 && below(change, 3) == 0 ? (int64_t)i - rank : i;
        count++;
    }
    if (kind < 2)
        return count;
    count = PICK(change, counts);
    for (uint32_t i = 0; i < count; i++)
        out[i] = kind == 2 ? 1 + below(change, 3) : below(change, 3);
    return count;
}

/* Sets numbers of a list: new ones, or one of the present ones. */
static bool set_ints(const struct change *change, inlay_attr_info *attr)
{
    int64_t numbers[NUMBERS + 1];
    const uint32_t most = below(change, 4) == 0 ? MOST_NUMBER : 5;
    uint32_t count = attr->count;

    if (count > 0 && count <= NUMBERS && below(change, 2) == 0) {
        memcpy(numbers, attr->ints, count * sizeof *numbers);
        numbers[below(change, count)] = (int64_t)below(change, most) - (below(change, 4) == 0 ? 3 : 0);
    } else {
        count = pick_list(change, numbers);
    }
    attr->ints = arena_copy(&change->entry->arena, numbers, count * sizeof *numbers + 1);
    attr->count = count;
    return attr->ints != NULL;
}

static bool set_word(const struct change *change, const char *name, inlay_attr_info *attr)
{
    const char *list = NULL, *end;
    uint32_t count = 1;

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(words[i].attribute, name) == 0)
            list = words[i].words;
    if (list == NULL)
        return false;
    for (const char *at = list; *at != '\0'; at++)
        count += *at == '|';
    for (uint32_t skip = below(change, count); skip > 0; skip--)
        list = strchr(list, '|') + 1;
    end = strchrnul(list, '|');
    attr->s = (inlay_str){ arena_string_n(&change->entry->arena, list, (size_t)(end - list)), (uint64_t)(end - list) };
    return attr->s.data != NULL;
}

/* Sets the attribute, or removes it. */
static void set_attr(const struct change *change, const op_attr *formal)
{
    static const float floats[] = { 0, 0.25F, 0.5F, 1, 1.5F, 2, -1, 1e-3F };
    op_case *entry = change->entry;
    inlay_attr_info *attr = NULL, added;

    /* operators of the optimiser, whose inputs have properties that it guarantees */
    if (strcmp(entry->domain, "ai.inlay") == 0)
        return;
    for (uint32_t i = 0; i < entry->attr_count; i++)
        if (strcmp(entry->attrs[i].name.data, formal->name) == 0)
            attr = &entry->attrs[i];
    if (attr != NULL && !formal->required && below(change, 4) == 0) {
        *attr = entry->attrs[--entry->attr_count];
        return;
    }
    added = attr != NULL ? *attr : (inlay_attr_info){ .kind = formal->kind, .i = formal->i };
    if (attr == NULL)
        added.name = (inlay_str){ arena_string(&entry->arena, formal->name), strlen(formal->name) };
    if (added.name.data == NULL || added.kind != formal->kind)
        return;
    switch (formal->kind) {
    case INLAY_ATTR_INT:
        added.i = pick_int(change, added.i);
        break;
    case INLAY_ATTR_FLOAT:
        added.f = (double)PICK(change, floats);
        /* A mean of squares plus a negative number cancels, and the root magnifies its rounding. */
        if (strcmp(formal->name, "epsilon") == 0 && added.f <= 0)
            added.f = 1e-3;
        break;
    case INLAY_ATTR_STRING:
        if (!set_word(change, formal->name, &added))
            return;
        break;
    case INLAY_ATTR_INTS:
        if (!set_ints(change, &added))
            return;
        break;
    default:
        return;
    }
    if (attr != NULL)
        *attr = added;
    else
        (void)case_attr(entry, &added);
}

static void change_attr(const struct change *change)
{
    const op_schema *schema = change->source->schema;

    if (schema->attr_count > 0)
        set_attr(change, &schema->attrs[below(change, schema->attr_count)]);
}

/* Copies what the case borrows. */
static bool own(op_case *entry)
{
    for (uint32_t i = 0; i < entry->in_count; i++) {
        case_tensor *tensor = &entry->in[i];

        tensor->data = NULL;
        if (tensor->given_count == 0)
            continue;
        tensor->given = arena_copy(&entry->arena, tensor->given, tensor->given_count * sizeof *tensor->given);
        if (tensor->given == NULL)
            return false;
    }
    for (uint32_t i = 0; i < entry->attr_count; i++) {
        inlay_attr_info *attr = &entry->attrs[i];

        attr->name.data = arena_string_n(&entry->arena, attr->name.data, attr->name.bytes);
        attr->s.data =
            attr->kind == INLAY_ATTR_STRING ? arena_string_n(&entry->arena, attr->s.data, attr->s.bytes) : NULL;
        attr->ints = attr->kind == INLAY_ATTR_INTS
                         ? arena_copy(&entry->arena, attr->ints, attr->count * sizeof *attr->ints)
                         : NULL;
        if (attr->name.data == NULL || (attr->kind == INLAY_ATTR_STRING && attr->s.data == NULL) ||
            (attr->kind == INLAY_ATTR_INTS && attr->ints == NULL))
            return false;
    }
    return true;
}

/* Has each input at most MOST_ELEMENTS elements? */
static bool is_small(const op_case *entry)
{
    for (uint32_t i = 0; i < entry->in_count; i++) {
        int64_t count = 1;

        for (uint32_t d = 0; d < entry->in[i].rank; d++)
            if (entry->in[i].dims[d] < 0 || __builtin_mul_overflow(count, entry->in[i].dims[d], &count) ||
                count > MOST_ELEMENTS)
                return false;
    }
    return true;
}

bool mutate_case(const op_case *from, const case_source *source, const op_attr *attr, bool is_wide, uint64_t *state,
                 op_case *out)
{
    static void (*const changes[])(
        const struct change *change) = { change_size,     change_size, change_size,    change_attr,   change_attr,
                                         change_attr,     change_rank, change_given,   change_given,  change_optional,
                                         change_constant, change_type, change_outputs, change_values, change_same };
    const struct change change = { source, out, state, is_wide };

    *out = *from;
    out->arena = (struct arena){ 0 };
    if (!own(out))
        goto failed;
    if (attr != NULL)
        set_attr(&change, attr);
    for (uint32_t i = below(&change, MOST_CHANGES) + (attr == NULL); i > 0; i--)
        PICK(&change, changes)(&change);
    settle_same(out);
    if (is_small(out) && case_fill(out, random_bits(state)) == INLAY_OK)
        return true;
failed:
    case_deinit(out);
    return false;
}
