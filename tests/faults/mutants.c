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

uint64_t chance_next(struct chance *c)
{
    uint64_t z = c->state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

uint64_t chance_below(struct chance *c, uint64_t limit)
{
    return limit == 0 ? 0 : chance_next(c) % limit;
}

int64_t chance_extreme(struct chance *c)
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
    uint64_t kind = chance_below(c, 10);

    if (kind < 6)
        return ends[chance_below(c, sizeof ends / sizeof ends[0])];
    if (kind < 9)
        return (int64_t)chance_below(c, 12) - 4;
    return (int64_t)chance_next(c) >> chance_below(c, 64);
}

static double extreme_float(struct chance *c)
{
    static const double ends[] = { 0, -0.0, 1, -1, 0.5, 1e-38, 1e38, -1e38, 1e300, 3e9, -3e9, 1e19, -1e19, 1e-300 };
    uint64_t at = chance_below(c, sizeof ends / sizeof ends[0] + 3);

    if (at < sizeof ends / sizeof ends[0])
        return ends[at];
    return at % 3 == 0 ? (double)NAN : at % 3 == 1 ? (double)INFINITY : -(double)INFINITY;
}

/* ------------------------------------------------------------------ the herd */

static tree_field *read_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    static uint8_t bytes[1 << 16];
    size_t count;
    bool whole;

    if (f == NULL)
        return NULL;
    count = fread(bytes, 1, sizeof bytes, f);
    whole = feof(f) != 0;
    (void)fclose(f);
    return whole ? tree_read(bytes, count) : NULL;
}

static void gather(struct herd *h, tree_field *t)
{
    for (uint32_t i = 0; i < t->field_count; i++) {
        tree_field *f = t->fields[i];
        bool graph = false;

        if (f->message == MSG_NODE && f->number == 4 && h->operator_count < MOST_NAMES)
            h->operators[h->operator_count++] = f;
        for (uint32_t k = 0; f->holds == MSG_ATTRIBUTE && k < f->field_count; k++)
            graph |= f->fields[k]->holds == MSG_GRAPH;
        if (f->holds == MSG_ATTRIBUTE && !graph && h->attribute_count < MOST_NAMES)
            h->attributes[h->attribute_count++] = f;
        gather(h, f);
    }
}

struct herd *herd_create(const char *const *paths, size_t count)
{
    struct herd *h = calloc(1, sizeof *h);

    if (h == NULL)
        abort();
    h->trees = calloc(count + 1, sizeof(tree_field *));
    h->paths = calloc(count + 1, sizeof(char *));
    if (h->trees == NULL || h->paths == NULL)
        abort();
    for (size_t i = 0; i < count; i++) {
        h->trees[h->count] = read_file(paths[i]);
        if (h->trees[h->count] == NULL)
            continue;
        gather(h, h->trees[h->count]);
        h->paths[h->count++] = strdup(paths[i]);
    }
    return h;
}

void herd_destroy(struct herd *h)
{
    for (size_t i = 0; i < h->count; i++) {
        tree_destroy(h->trees[i]);
        free(h->paths[i]);
    }
    free(h->trees);
    free(h->paths);
    free(h);
}

size_t herd_count(const struct herd *h)
{
    return h->count;
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
static void change_ints(tree_field *f, struct chance *c)
{
    uint8_t *out = malloc(f->byte_count + 32);
    size_t at = 0, n = 0, numbers = 0, pick, index = 0;
    uint64_t how = chance_below(c, 8);

    if (out == NULL)
        abort();
    for (size_t i = 0; i < f->byte_count; i++)
        numbers += f->bytes[i] < 0x80;
    pick = (size_t)chance_below(c, numbers + 1);
    for (; at < f->byte_count; index++) {
        size_t end = at;

        while (end < f->byte_count && f->bytes[end] >= 0x80)
            end++;
        end += end < f->byte_count;
        if (index == pick && how > 0)
            n += encode(out + n, (uint64_t)chance_extreme(c));
        if (index != pick || how > 6) {
            memcpy(out + n, f->bytes + at, end - at);
            n += end - at;
        }
        at = end;
    }
    if (pick == numbers)
        n += encode(out + n, (uint64_t)chance_extreme(c));
    tree_set_bytes(f, out, n);
    free(out);
}

/* Elements, texts: flips, extreme numbers, other lengths. */
static void change_bytes(tree_field *f, struct chance *c)
{
    uint64_t how = chance_below(c, 6);
    int64_t number = chance_extreme(c);
    float real = (float)extreme_float(c);

    if (how == 0 || f->byte_count == 0) {
        tree_set_bytes(f, &number, chance_below(c, 9));
    } else if (how == 1) {
        tree_set_bytes(f, f->bytes, (size_t)chance_below(c, f->byte_count));
    } else if (how == 2) {
        f->bytes[chance_below(c, f->byte_count)] ^= (uint8_t)(1u << chance_below(c, 8));
    } else if (how <= 4 && f->byte_count >= 8) {
        memcpy(f->bytes + chance_below(c, f->byte_count / 8) * 8, &number, 8);
    } else if (f->byte_count >= 4) {
        memcpy(f->bytes + chance_below(c, f->byte_count / 4) * 4, &real, 4);
    } else {
        f->bytes[0] = (uint8_t)chance_next(c);
    }
}

static bool is_name(const tree_field *f)
{
    return (f->message == MSG_NODE && f->number <= 2) || (f->message == MSG_TENSOR && f->number == 8) ||
           (f->message == MSG_VALUE_INFO && f->number == 1) || (f->message == MSG_DIM && f->number == 2) ||
           (f->message == MSG_ATTRIBUTE && f->number == 1);
}

/* A name becomes another of the same kind, or empty. */
static void change_name(tree_field *f, tree_field **fields, size_t count, struct chance *c)
{
    size_t start = (size_t)chance_below(c, count);

    if (chance_below(c, 3) == 0) {
        tree_set_bytes(f, "", 0);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        const tree_field *other = fields[(start + i) % count];
        if (other != f && other->bytes != NULL && is_name(other) &&
            (other->message == f->message || f->message != MSG_ATTRIBUTE)) {
            tree_set_bytes(f, other->bytes, other->byte_count);
            return;
        }
    }
}

static bool is_element_type(const tree_field *f)
{
    return (f->message == MSG_TENSOR && f->number == 2) || (f->message == MSG_TENSOR_TYPE && f->number == 1);
}

static void change_value(tree_field *f, struct chance *c)
{
    double wide = extreme_float(c);
    float narrow = (float)wide;

    if (f->wire == 5) {
        f->value = 0;
        memcpy(&f->value, &narrow, sizeof narrow);
    } else if (f->wire == 1) {
        memcpy(&f->value, &wide, sizeof wide);
    } else if (is_element_type(f)) {
        f->value = chance_below(c, ELEMENT_TYPES + 2);
    } else if (f->message == MSG_OPSET || (f->message == MSG_ATTRIBUTE && f->number == 20)) {
        f->value = chance_below(c, 29);
    } else {
        f->value = (uint64_t)chance_extreme(c);
    }
}

static void change_operator(const struct herd *h, tree_field *f, struct chance *c)
{
    const tree_field *other = h->operators[chance_below(c, h->operator_count)];

    tree_set_bytes(f, other->bytes, other->byte_count);
}

static void swap(tree_field *parent, tree_field *f, struct chance *c)
{
    uint32_t i = 0, k = (uint32_t)chance_below(c, parent->field_count);

    while (parent->fields[i] != f)
        i++;
    if (parent->fields[k]->number == f->number) {
        parent->fields[i] = parent->fields[k];
        parent->fields[k] = f;
    }
}

static void change(const struct herd *h, tree_field *tree, struct chance *c)
{
    static tree_field *fields[MOST_FIELDS], *parents[MOST_FIELDS]; /* one thread mutates */
    size_t count = tree_list(tree, fields, parents, MOST_FIELDS), pick;
    tree_field *f, *parent;
    uint64_t how = chance_below(c, 20);

    if (count == 0)
        return;
    /* Names of producers and the like are fields too, but nothing depends on them. */
    for (int tries = 0; tries < 8; tries++) {
        pick = (size_t)chance_below(c, count);
        if (fields[pick]->message != MSG_MODEL || fields[pick]->holds != MSG_NONE)
            break;
    }
    f = fields[pick];
    parent = parents[pick];
    if (how == 0) {
        tree_remove(parent, f);
    } else if (how == 1) {
        tree_add_copy(parent, f);
    } else if (how == 2) {
        swap(parent, f, c);
    } else if (how == 3 && f->holds == MSG_NODE && h->attribute_count > 0) {
        tree_add_copy(f, h->attributes[chance_below(c, h->attribute_count)]);
    } else if (f->message == MSG_NODE && f->number == 4) {
        change_operator(h, f, c);
    } else if (f->wire != 2) {
        change_value(f, c);
    } else if (tree_is_ints(f)) {
        change_ints(f, c);
    } else if (is_name(f)) {
        change_name(f, fields, count, c);
    } else if (f->holds == MSG_NONE) {
        change_bytes(f, c);
    } else if (f->holds == MSG_TENSOR || f->holds == MSG_SHAPE || f->holds == MSG_DIM) {
        /* Numbers written one by one (dims of tensors often are), or a dimension. */
        tree_field extra = { .number = 1, .message = f->holds, .value = (uint64_t)chance_extreme(c) };
        tree_field dim = { .number = 1, .wire = 2, .message = MSG_SHAPE, .holds = MSG_DIM };

        tree_add_copy(f, f->holds == MSG_SHAPE ? &dim : &extra);
    } else {
        change(h, tree, c); /* a message: change something in it, or elsewhere */
    }
}

uint8_t *herd_mutant(const struct herd *h, struct chance *c, size_t *out_bytes, const char **out_name)
{
    size_t which = (size_t)chance_below(c, h->count);
    tree_field *tree = tree_copy(h->trees[which]);
    uint64_t changes = 1 + chance_below(c, 2) * chance_below(c, 4), raw = chance_below(c, 16);
    uint8_t *data;

    for (uint64_t i = 0; raw > 0 && i < changes; i++)
        change(h, tree, c);
    data = tree_write(tree, out_bytes);
    tree_destroy(tree);
    for (uint64_t i = 0; raw == 0 && *out_bytes > 0 && i < changes; i++)
        data[chance_below(c, *out_bytes)] ^= (uint8_t)(1u << chance_below(c, 8));
    if (raw == 0 && chance_below(c, 4) == 0)
        *out_bytes = (size_t)chance_below(c, *out_bytes + 1);
    *out_name = h->paths[which];
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
