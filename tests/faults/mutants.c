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

enum { MOST_FIELDS = 20000, MOST_NAMES = 4096, ELEMENT_TYPES = 27 };

struct herd {
    tree_field **trees;
    char **paths;
    size_t count;
    tree_field *operators[MOST_NAMES]; /* op_type fields of all trees, borrowed */
    size_t operator_count;
    tree_field *attributes[MOST_NAMES]; /* attributes without graphs, likewise */
    size_t attribute_count;
};

/* ------------------------------------------------------------------ chance */

uint64_t chance_next(struct chance *chance)
{
    uint64_t z = chance->state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

uint64_t chance_below(struct chance *chance, uint64_t limit)
{
    return limit == 0 ? 0 : chance_next(chance) % limit;
}

int64_t chance_extreme(struct chance *chance)
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
    uint64_t kind = chance_below(chance, 10);

    if (kind < 6)
        return ends[chance_below(chance, sizeof ends / sizeof ends[0])];
    if (kind < 9)
        return (int64_t)chance_below(chance, 12) - 4;
    return (int64_t)chance_next(chance) >> chance_below(chance, 64);
}

static double extreme_float(struct chance *chance)
{
    static const double ends[] = { 0, -0.0, 1, -1, 0.5, 1e-38, 1e38, -1e38, 1e300, 3e9, -3e9, 1e19, -1e19, 1e-300 };
    uint64_t at = chance_below(chance, sizeof ends / sizeof ends[0] + 3);

    if (at < sizeof ends / sizeof ends[0])
        return ends[at];
    return at % 3 == 0 ? (double)NAN : at % 3 == 1 ? (double)INFINITY : -(double)INFINITY;
}

/* ------------------------------------------------------------------ the herd */

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

static void gather(struct herd *herd, tree_field *field)
{
    for (uint32_t i = 0; i < field->field_count; i++) {
        tree_field *f = field->fields[i];
        bool graph = false;

        if (f->message == MSG_NODE && f->number == 4 && herd->operator_count < MOST_NAMES)
            herd->operators[herd->operator_count++] = f;
        for (uint32_t k = 0; f->holds == MSG_ATTRIBUTE && k < f->field_count; k++)
            graph |= f->fields[k]->holds == MSG_GRAPH;
        if (f->holds == MSG_ATTRIBUTE && !graph && herd->attribute_count < MOST_NAMES)
            herd->attributes[herd->attribute_count++] = f;
        gather(herd, f);
    }
}

struct herd *herd_create(const char *const *paths, size_t count)
{
    struct herd *herd = calloc(1, sizeof *herd);

    if (herd == NULL)
        abort();
    herd->trees = calloc(count + 1, sizeof(tree_field *));
    herd->paths = calloc(count + 1, sizeof(char *));
    if (herd->trees == NULL || herd->paths == NULL)
        abort();
    for (size_t i = 0; i < count; i++) {
        herd->trees[herd->count] = read_file(paths[i]);
        if (herd->trees[herd->count] == NULL)
            continue;
        gather(herd, herd->trees[herd->count]);
        herd->paths[herd->count++] = strdup(paths[i]);
    }
    return herd;
}

void herd_destroy(struct herd *herd)
{
    for (size_t i = 0; i < herd->count; i++) {
        tree_destroy(herd->trees[i]);
        free(herd->paths[i]);
    }
    free(herd->trees);
    free(herd->paths);
    free(herd);
}

size_t herd_count(const struct herd *herd)
{
    return herd->count;
}

/* ------------------------------------------------------------------ single changes */

static size_t encode(uint8_t to[10], uint64_t v)
{
    size_t n = 0;

    for (; v > 0x7f; v >>= 7)
        to[n++] = (uint8_t)(v | 0x80);
    to[n++] = (uint8_t)v;
    return n;
}

/* One number of a packed list becomes an extreme one, or goes, or is followed by another. */
static void change_ints(tree_field *field, struct chance *chance)
{
    uint8_t *out = malloc(field->byte_count + 32);
    size_t at = 0, n = 0, numbers = 0, pick, index = 0;
    uint64_t how = chance_below(chance, 8);

    if (out == NULL)
        abort();
    for (size_t i = 0; i < field->byte_count; i++)
        numbers += field->bytes[i] < 0x80;
    pick = (size_t)chance_below(chance, numbers + 1);
    for (; at < field->byte_count; index++) {
        size_t end = at;

        while (end < field->byte_count && field->bytes[end] >= 0x80)
            end++;
        end += end < field->byte_count;
        if (index == pick && how > 0)
            n += encode(out + n, (uint64_t)chance_extreme(chance));
        if (index != pick || how > 6) {
            memcpy(out + n, field->bytes + at, end - at);
            n += end - at;
        }
        at = end;
    }
    if (pick == numbers)
        n += encode(out + n, (uint64_t)chance_extreme(chance));
    tree_set_bytes(field, out, n);
    free(out);
}

/* Elements, texts: flips, extreme numbers, other lengths. */
static void change_bytes(tree_field *field, struct chance *chance)
{
    uint64_t how = chance_below(chance, 6);
    int64_t number = chance_extreme(chance);
    float real = (float)extreme_float(chance);

    if (how == 0 || field->byte_count == 0) {
        tree_set_bytes(field, &number, chance_below(chance, 9));
    } else if (how == 1) {
        tree_set_bytes(field, field->bytes, (size_t)chance_below(chance, field->byte_count));
    } else if (how == 2) {
        field->bytes[chance_below(chance, field->byte_count)] ^= (uint8_t)(1u << chance_below(chance, 8));
    } else if (how <= 4 && field->byte_count >= 8) {
        memcpy(field->bytes + chance_below(chance, field->byte_count / 8) * 8, &number, 8);
    } else if (field->byte_count >= 4) {
        memcpy(field->bytes + chance_below(chance, field->byte_count / 4) * 4, &real, 4);
    } else {
        field->bytes[0] = (uint8_t)chance_next(chance);
    }
}

static bool is_name(const tree_field *field)
{
    return (field->message == MSG_NODE && field->number <= 2) || (field->message == MSG_TENSOR && field->number == 8) ||
           (field->message == MSG_VALUE_INFO && field->number == 1) ||
           (field->message == MSG_DIM && field->number == 2) || (field->message == MSG_ATTRIBUTE && field->number == 1);
}

/* A name becomes another of the same kind, or empty. */
static void change_name(tree_field *field, tree_field **fields, size_t count, struct chance *chance)
{
    size_t start = (size_t)chance_below(chance, count);

    if (chance_below(chance, 3) == 0) {
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

static void change_value(tree_field *field, struct chance *chance)
{
    double wide = extreme_float(chance);
    float narrow = (float)wide;

    if (field->wire == 5) {
        field->value = 0;
        memcpy(&field->value, &narrow, sizeof narrow);
    } else if (field->wire == 1) {
        memcpy(&field->value, &wide, sizeof wide);
    } else if (is_element_type(field)) {
        field->value = chance_below(chance, ELEMENT_TYPES + 2);
    } else if (field->message == MSG_OPSET || (field->message == MSG_ATTRIBUTE && field->number == 20)) {
        field->value = chance_below(chance, 29);
    } else {
        field->value = (uint64_t)chance_extreme(chance);
    }
}

static void change_operator(const struct herd *herd, tree_field *field, struct chance *chance)
{
    const tree_field *other = herd->operators[chance_below(chance, herd->operator_count)];

    tree_set_bytes(field, other->bytes, other->byte_count);
}

static void swap(tree_field *parent, tree_field *field, struct chance *chance)
{
    uint32_t i = 0, k = (uint32_t)chance_below(chance, parent->field_count);

    while (parent->fields[i] != field)
        i++;
    if (parent->fields[k]->number == field->number) {
        parent->fields[i] = parent->fields[k];
        parent->fields[k] = field;
    }
}

static void change(const struct herd *herd, tree_field *tree, struct chance *chance)
{
    static tree_field *fields[MOST_FIELDS], *parents[MOST_FIELDS]; /* one thread mutates */
    size_t count = tree_list(tree, fields, parents, MOST_FIELDS), pick;
    tree_field *field, *parent;
    uint64_t how = chance_below(chance, 20);

    if (count == 0)
        return;
    /* Names of producers and the like are fields too, but nothing depends on them. */
    for (int tries = 0; tries < 8; tries++) {
        pick = (size_t)chance_below(chance, count);
        if (fields[pick]->message != MSG_MODEL || fields[pick]->holds != MSG_NONE)
            break;
    }
    field = fields[pick];
    parent = parents[pick];
    if (how == 0) {
        tree_remove(parent, field);
    } else if (how == 1) {
        tree_add_copy(parent, field);
    } else if (how == 2) {
        swap(parent, field, chance);
    } else if (how == 3 && field->holds == MSG_NODE && herd->attribute_count > 0) {
        tree_add_copy(field, herd->attributes[chance_below(chance, herd->attribute_count)]);
    } else if (field->message == MSG_NODE && field->number == 4) {
        change_operator(herd, field, chance);
    } else if (field->wire != 2) {
        change_value(field, chance);
    } else if (tree_is_ints(field)) {
        change_ints(field, chance);
    } else if (is_name(field)) {
        change_name(field, fields, count, chance);
    } else if (field->holds == MSG_NONE) {
        change_bytes(field, chance);
    } else if (field->holds == MSG_TENSOR || field->holds == MSG_SHAPE || field->holds == MSG_DIM) {
        /* Numbers written one by one (dims of tensors often are), or a dimension. */
        tree_field extra = { .number = 1, .message = field->holds, .value = (uint64_t)chance_extreme(chance) };
        tree_field dim = { .number = 1, .wire = 2, .message = MSG_SHAPE, .holds = MSG_DIM };

        tree_add_copy(field, field->holds == MSG_SHAPE ? &dim : &extra);
    } else {
        change(herd, tree, chance); /* a message: change something in it, or elsewhere */
    }
}

uint8_t *herd_mutant(const struct herd *herd, struct chance *chance, size_t *out_bytes, const char **out_name)
{
    size_t which = (size_t)chance_below(chance, herd->count);
    tree_field *tree = tree_copy(herd->trees[which]);
    uint64_t changes = 1 + chance_below(chance, 2) * chance_below(chance, 4), raw = chance_below(chance, 16);
    uint8_t *data;

    for (uint64_t i = 0; raw > 0 && i < changes; i++)
        change(herd, tree, chance);
    data = tree_write(tree, out_bytes);
    tree_destroy(tree);
    for (uint64_t i = 0; raw == 0 && *out_bytes > 0 && i < changes; i++)
        data[chance_below(chance, *out_bytes)] ^= (uint8_t)(1u << chance_below(chance, 8));
    if (raw == 0 && chance_below(chance, 4) == 0)
        *out_bytes = (size_t)chance_below(chance, *out_bytes + 1);
    *out_name = herd->paths[which];
    return data;
}

static void hung(int sig)
{
    static const char text[] = "a mutant hangs\n";

    (void)sig;
    (void)!write(2, text, sizeof text - 1);
    abort();
}

void mutants_limit(unsigned seconds)
{
    const struct itimerval busy = { .it_value.tv_sec = (time_t)seconds };

    (void)signal(SIGPROF, hung);
    (void)signal(SIGALRM, hung);
    (void)setitimer(ITIMER_PROF, &busy, NULL);
    (void)alarm(MUTANT_WAIT_TIMES * seconds); /* for one that waits for ever */
}
