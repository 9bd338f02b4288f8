#include "mutants.h"
#include "onnx_tree.h"
#include <math.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

enum { MAX_FIELDS = 20000, MAX_NAMES = 4096, ELEMENT_TYPES = 27 };

struct model_set {
    tree_field **trees;
    char **paths;
    size_t count;
    tree_field *operators[MAX_NAMES]; /* op_type fields of all trees, borrowed */
    size_t operator_count;
    tree_field *attributes[MAX_NAMES]; /* attributes without graphs, borrowed */
    size_t attribute_count;
};

int64_t random_extreme(uint64_t *seed)
{
    static const int64_t ends[] = {
        0,
        0,
        -1,
        -1,
        1,
        2,
        3,
        7,
        INT64_MIN,
        INT64_MAX,
        INT32_MAX,
        INT32_MIN,
        (int64_t)INT32_MAX + 1,
        UINT32_MAX,
        INT64_MIN + 1,
        INT64_MAX - 1,
        127,
        128,
        255,
        256,
        65535,
        65536,
        1000,
        100000,
        1 << 20,
        1 << 30,
        INT64_C(1) << 33,
        INT64_C(1) << 40,
        INT64_C(1) << 62,
        -2,
        -3,
        -100,
        INT64_MAX / 2,
        INT64_MAX / 4,
    };
    uint64_t kind = random_below(seed, 10);

    if (kind < 6)
        return ends[random_below(seed, sizeof ends / sizeof ends[0])];
    if (kind < 9)
        return (int64_t)random_below(seed, 12) - 4;
    return (int64_t)random_bits(seed) >> random_below(seed, 64);
}

static double extreme_float(uint64_t *seed)
{
    static const double ends[] = { 0, -0.0, 1, -1, 0.5, 1e-38, 1e38, -1e38, 1e300, 3e9, -3e9, 1e19, -1e19, 1e-300 };
    uint64_t at = random_below(seed, sizeof ends / sizeof ends[0] + 3);

    if (at < sizeof ends / sizeof ends[0])
        return ends[at];
    return at % 3 == 0 ? (double)NAN : at % 3 == 1 ? (double)INFINITY : -(double)INFINITY;
}

static tree_field *read_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    static uint8_t bytes[1 << 16];
    size_t count;
    bool whole;

    if (file == NULL)
        return NULL;
    count = fread(bytes, 1, sizeof bytes, file);
    whole = feof(file) != 0;
    (void)fclose(file);
    return whole ? tree_read(bytes, count) : NULL;
}

static void index_fields(struct model_set *model_set, tree_field *field)
{
    for (uint32_t i = 0; i < field->field_count; i++) {
        tree_field *child = field->fields[i];
        bool graph = false;

        if (child->message == MSG_NODE && child->number == 4 && model_set->operator_count < MAX_NAMES)
            model_set->operators[model_set->operator_count++] = child;
        for (uint32_t k = 0; child->holds == MSG_ATTRIBUTE && k < child->field_count; k++)
            graph |= child->fields[k]->holds == MSG_GRAPH;
        if (child->holds == MSG_ATTRIBUTE && !graph && model_set->attribute_count < MAX_NAMES)
            model_set->attributes[model_set->attribute_count++] = child;
        index_fields(model_set, child);
    }
}

struct model_set *model_set_create(const char *const *paths, size_t count)
{
    struct model_set *model_set = calloc(1, sizeof *model_set);

    if (model_set == NULL)
        abort();
    model_set->trees = calloc(count + 1, sizeof(tree_field *));
    model_set->paths = calloc(count + 1, sizeof(char *));
    if (model_set->trees == NULL || model_set->paths == NULL)
        abort();
    for (size_t i = 0; i < count; i++) {
        model_set->trees[model_set->count] = read_file(paths[i]);
        if (model_set->trees[model_set->count] == NULL)
            continue;
        index_fields(model_set, model_set->trees[model_set->count]);
        model_set->paths[model_set->count++] = strdup(paths[i]);
    }
    return model_set;
}

void model_set_destroy(struct model_set *model_set)
{
    for (size_t i = 0; i < model_set->count; i++) {
        tree_destroy(model_set->trees[i]);
        free(model_set->paths[i]);
    }
    free(model_set->trees);
    free(model_set->paths);
    free(model_set);
}

size_t model_set_count(const struct model_set *model_set)
{
    return model_set->count;
}

static size_t encode(uint8_t to[10], uint64_t value)
{
    size_t count = 0;

    for (; value > 0x7f; value >>= 7)
        to[count++] = (uint8_t)(value | 0x80);
    to[count++] = (uint8_t)value;
    return count;
}

/* Replaces a number of a packed list by an extreme one, removes it, or inserts another one. */
static void change_ints(tree_field *field, uint64_t *seed)
{
    uint8_t *out = malloc(field->byte_count + 32);
    size_t at = 0, out_count = 0, numbers = 0, pick, index = 0;
    uint64_t choice = random_below(seed, 8);

    if (out == NULL)
        abort();
    for (size_t i = 0; i < field->byte_count; i++)
        numbers += field->bytes[i] < 0x80;
    pick = (size_t)random_below(seed, numbers + 1);
    for (; at < field->byte_count; index++) {
        size_t end = at;

        while (end < field->byte_count && field->bytes[end] >= 0x80)
            end++;
        end += end < field->byte_count;
        if (index == pick && choice > 0)
            out_count += encode(out + out_count, (uint64_t)random_extreme(seed));
        if (index != pick || choice > 6) {
            memcpy(out + out_count, field->bytes + at, end - at);
            out_count += end - at;
        }
        at = end;
    }
    if (pick == numbers)
        out_count += encode(out + out_count, (uint64_t)random_extreme(seed));
    tree_set_bytes(field, out, out_count);
    free(out);
}

/* Changes elements or texts: flipped bits, extreme numbers, other lengths. */
static void change_bytes(tree_field *field, uint64_t *seed)
{
    uint64_t choice = random_below(seed, 6);
    int64_t number = random_extreme(seed);
    float real = (float)extreme_float(seed);

    if (choice == 0 || field->byte_count == 0) {
        tree_set_bytes(field, &number, random_below(seed, 9));
    } else if (choice == 1) {
        tree_set_bytes(field, field->bytes, (size_t)random_below(seed, field->byte_count));
    } else if (choice == 2) {
        field->bytes[random_below(seed, field->byte_count)] ^= (uint8_t)(1u << random_below(seed, 8));
    } else if (choice <= 4 && field->byte_count >= 8) {
        memcpy(field->bytes + random_below(seed, field->byte_count / 8) * 8, &number, 8);
    } else if (field->byte_count >= 4) {
        memcpy(field->bytes + random_below(seed, field->byte_count / 4) * 4, &real, 4);
    } else {
        field->bytes[0] = (uint8_t)random_bits(seed);
    }
}

static bool is_name(const tree_field *field)
{
    return (field->message == MSG_NODE && field->number <= 2) || (field->message == MSG_TENSOR && field->number == 8) ||
           (field->message == MSG_VALUE_INFO && field->number == 1) ||
           (field->message == MSG_DIM && field->number == 2) || (field->message == MSG_ATTRIBUTE && field->number == 1);
}

/* Replaces a name by another one of the same kind, or by an empty one. */
static void change_name(tree_field *field, tree_field **fields, size_t count, uint64_t *seed)
{
    size_t start = (size_t)random_below(seed, count);

    if (random_below(seed, 3) == 0) {
        tree_set_bytes(field, "", 0);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        const tree_field *other = fields[(start + i) % count];
        if (other != field && other->bytes != NULL && is_name(other) &&
            (other->message == field->message || field->message != MSG_ATTRIBUTE)) {
            tree_set_bytes(field, other->bytes, other->byte_count);
            return;
        }
    }
}

static bool is_element_type(const tree_field *field)
{
    return (field->message == MSG_TENSOR && field->number == 2) ||
           (field->message == MSG_TENSOR_TYPE && field->number == 1);
}

static void change_value(tree_field *field, uint64_t *seed)
{
    double wide = extreme_float(seed);
    float narrow = (float)wide;

    if (field->wire == 5) {
        field->value = 0;
        memcpy(&field->value, &narrow, sizeof narrow);
    } else if (field->wire == 1) {
        memcpy(&field->value, &wide, sizeof wide);
    } else if (is_element_type(field)) {
        field->value = random_below(seed, ELEMENT_TYPES + 2);
    } else if (field->message == MSG_OPSET || (field->message == MSG_ATTRIBUTE && field->number == 20)) {
        field->value = random_below(seed, 29);
    } else {
        field->value = (uint64_t)random_extreme(seed);
    }
}

static void change_operator(const struct model_set *model_set, tree_field *field, uint64_t *seed)
{
    const tree_field *other = model_set->operators[random_below(seed, model_set->operator_count)];

    tree_set_bytes(field, other->bytes, other->byte_count);
}

static void swap(tree_field *parent, tree_field *field, uint64_t *seed)
{
    uint32_t i = 0, k = (uint32_t)random_below(seed, parent->field_count);

    while (parent->fields[i] != field)
        i++;
    if (parent->fields[k]->number == field->number) {
        parent->fields[i] = parent->fields[k];
        parent->fields[k] = field;
    }
}

static void change(const struct model_set *model_set, tree_field *tree, uint64_t *seed)
{
    static tree_field *fields[MAX_FIELDS], *parents[MAX_FIELDS]; /* only one thread mutates */
    size_t count = tree_list(tree, fields, parents, MAX_FIELDS), pick;
    tree_field *field, *parent;
    uint64_t choice = random_below(seed, 20);

    if (count == 0)
        return;
    /* Avoid fields without effect, such as the name of the producer. */
    for (int tries = 0; tries < 8; tries++) {
        pick = (size_t)random_below(seed, count);
        if (fields[pick]->message != MSG_MODEL || fields[pick]->holds != MSG_NONE)
            break;
    }
    field = fields[pick];
    parent = parents[pick];
    if (choice == 0) {
        tree_remove(parent, field);
    } else if (choice == 1) {
        tree_add_copy(parent, field);
    } else if (choice == 2) {
        swap(parent, field, seed);
    } else if (choice == 3 && field->holds == MSG_NODE && model_set->attribute_count > 0) {
        tree_add_copy(field, model_set->attributes[random_below(seed, model_set->attribute_count)]);
    } else if (field->message == MSG_NODE && field->number == 4) {
        change_operator(model_set, field, seed);
    } else if (field->wire != 2) {
        change_value(field, seed);
    } else if (tree_is_ints(field)) {
        change_ints(field, seed);
    } else if (is_name(field)) {
        change_name(field, fields, count, seed);
    } else if (field->holds == MSG_NONE) {
        change_bytes(field, seed);
    } else if (field->holds == MSG_TENSOR || field->holds == MSG_SHAPE || field->holds == MSG_DIM) {
        /* Adds a number that is not packed (dims of tensors often are not), or a dimension. */
        tree_field extra = { .number = 1, .message = field->holds, .value = (uint64_t)random_extreme(seed) };
        tree_field dim = { .number = 1, .wire = 2, .message = MSG_SHAPE, .holds = MSG_DIM };

        tree_add_copy(field, field->holds == MSG_SHAPE ? &dim : &extra);
    } else {
        change(model_set, tree, seed); /* a message without numbers: change another field */
    }
}

uint8_t *model_set_mutate(const struct model_set *model_set, uint64_t *seed, size_t *out_bytes, const char **out_name)
{
    size_t which = (size_t)random_below(seed, model_set->count);
    tree_field *tree = tree_copy(model_set->trees[which]);
    uint64_t changes = 1 + random_below(seed, 2) * random_below(seed, 4), raw = random_below(seed, 16);
    uint8_t *data;

    for (uint64_t i = 0; raw > 0 && i < changes; i++)
        change(model_set, tree, seed);
    data = tree_write(tree, out_bytes);
    tree_destroy(tree);
    for (uint64_t i = 0; raw == 0 && *out_bytes > 0 && i < changes; i++)
        data[random_below(seed, *out_bytes)] ^= (uint8_t)(1u << random_below(seed, 8));
    if (raw == 0 && random_below(seed, 4) == 0)
        *out_bytes = (size_t)random_below(seed, *out_bytes + 1);
    *out_name = model_set->paths[which];
    return data;
}

static void report_hang(int sig)
{
    static const char text[] = "a mutant hangs\n";

    (void)sig;
    (void)!write(2, text, sizeof text - 1);
    abort();
}

void mutants_limit(unsigned seconds)
{
    const struct itimerval busy = { .it_value.tv_sec = (time_t)seconds };

    (void)signal(SIGPROF, report_hang);
    (void)signal(SIGALRM, report_hang);
    (void)setitimer(ITIMER_PROF, &busy, NULL);
    (void)alarm(MUTANT_WAIT_TIMES * seconds); /* detects mutants that wait forever */
}

void mutants_check_message(inlay_status status, const inlay_diag *diag, const char *what)
{
    if (status == INLAY_OK || (diag->text[0] != '\0' && strchr(diag->text, '\n') == NULL))
        return;
    (void)fprintf(stderr, "%s failed with %d and without a message of one line: '%s'\n", what, (int)status, diag->text);
    abort();
}
