/* ops/schema.c - finds operator rows by domain, name and opset. */
#include "schema.h"
#include "inlay/check.h"
#include <pthread.h>
#include <string.h>

/* These declarations are not in the header, so that a new file of operators does not recompile all others. */
#define TABLE(dir, stem) extern const op_table op_##dir##_##stem;
#include "ops.def"
#undef TABLE

static const op_table *const tables[] = {
#define TABLE(dir, stem) &op_##dir##_##stem,
#include "ops.def"
#undef TABLE
};

/* The domains, and the opset up to which their rows are complete. The first OWN_COUNT domains are ONNX's and complete.
 * The rows of the other domains are a selection, to which plug-ins may add operators. */
static const struct {
    const char *name;
    int64_t newest;
} domains[] = {
    { "ai.onnx", 28 },      { "ai.onnx.ml", 5 }, { "ai.onnx.preview", 1 }, { "ai.onnx.preview.training", 1 },
    { "com.microsoft", 1 }, { "ai.inlay", 1 },
};
enum { DOMAIN_COUNT = sizeof domains / sizeof domains[0], OWN_COUNT = 4 };

/* A hash table with open addressing; an entry has the rows of all versions of one operator. The size is a power of two,
 * and a few times the number of operators. */
enum { SLOT_COUNT = 1024 };
static struct {
    const op_row *rows; /* NULL: free */
    uint32_t count;
    uint32_t domain; /* index into domains */
} slots[SLOT_COUNT];
static pthread_once_t slots_once = PTHREAD_ONCE_INIT;

/* The index into domains, where "" is ai.onnx; DOMAIN_COUNT for other domains. */
static uint32_t domain_index(const char *domain)
{
    if (domain[0] == '\0')
        return 0;
    for (uint32_t i = 0; i < DOMAIN_COUNT; i++)
        if (strcmp(domain, domains[i].name) == 0)
            return i;
    return DOMAIN_COUNT;
}

/* FNV-1a */
static uint32_t hash_of(uint32_t domain, const char *op_type)
{
    uint32_t hash = (2166136261u ^ domain) * 16777619u;

    for (; *op_type != '\0'; op_type++)
        hash = (hash ^ (unsigned char)*op_type) * 16777619u;
    return hash;
}

/* The slot of the operator, or the free slot for it. */
static uint32_t slot_of(uint32_t domain, const char *op_type)
{
    uint32_t i = hash_of(domain, op_type) % SLOT_COUNT;

    while (slots[i].rows != NULL && (slots[i].domain != domain || strcmp(slots[i].rows->op_type, op_type) != 0))
        i = (i + 1) % SLOT_COUNT;
    return i;
}

static void fill_slots(void)
{
    uint32_t used = 0;

    for (uint32_t table_index = 0; table_index < OP_COUNT(tables); table_index++) {
        const op_table *table = tables[table_index];
        uint32_t domain = domain_index(table->domain), run;

        for (uint32_t r = 0; r < table->count; r += run) {
            const op_row *rows = table->rows + r;
            uint32_t slot = slot_of(domain, rows->op_type);

            for (run = 1; r + run < table->count && strcmp(rows[run].op_type, rows->op_type) == 0; run++)
                INLAY_CHECK(rows[run].since_version > rows[run - 1].since_version);
            INLAY_CHECK(domain < DOMAIN_COUNT && slots[slot].rows == NULL); /* versions of an operator are adjacent */
            used++;
            INLAY_CHECK(used <= SLOT_COUNT / 2);
            slots[slot].rows = rows;
            slots[slot].count = run;
            slots[slot].domain = domain;
        }
    }
}

const op_row *op_find(const char *domain, const char *op_type, int64_t opset, uint32_t *out_lowest)
{
    uint32_t index = domain_index(domain), slot;
    const op_row *found = NULL;

    if (out_lowest != NULL)
        *out_lowest = 0;
    if (index == DOMAIN_COUNT)
        return NULL;
    (void)pthread_once(&slots_once, fill_slots);
    slot = slot_of(index, op_type);
    if (slots[slot].rows == NULL)
        return NULL;
    if (out_lowest != NULL)
        *out_lowest = slots[slot].rows->since_version;
    for (uint32_t i = 0; i < slots[slot].count && slots[slot].rows[i].since_version <= opset; i++)
        found = &slots[slot].rows[i];
    return found;
}

bool op_domain_known(const char *domain)
{
    return domain_index(domain) < OWN_COUNT;
}

int64_t op_domain_newest(const char *domain)
{
    uint32_t index = domain_index(domain);

    return index < DOMAIN_COUNT ? domains[index].newest : 0;
}

/* The Levenshtein distance, without case; limit + 1 if it is above limit. */
static uint32_t edit_distance(const char *a, const char *b, uint32_t limit)
{
    enum { MAX = 48 };
    uint8_t row[MAX + 1];
    size_t na = strlen(a), nb = strlen(b);

    if (na > MAX || nb > MAX || (na > nb ? na - nb : nb - na) > limit)
        return limit + 1;
    for (size_t j = 0; j <= nb; j++)
        row[j] = (uint8_t)j;
    for (size_t i = 1; i <= na; i++) {
        uint8_t diagonal = row[0];

        row[0] = (uint8_t)i;
        for (size_t j = 1; j <= nb; j++) {
            uint8_t above = row[j], best = diagonal;

            if ((a[i - 1] | 0x20) != (b[j - 1] | 0x20)) {
                best = above < best ? above : best;
                best = row[j - 1] < best ? row[j - 1] : best;
                best++;
            }
            diagonal = above;
            row[j] = best;
        }
    }
    return row[nb] > limit ? limit + 1 : row[nb];
}

const char *op_nearest(const char *domain, const char *op_type)
{
    uint32_t index = domain_index(domain), best = 4;
    const char *nearest = NULL;

    if (index == DOMAIN_COUNT)
        return NULL;
    for (uint32_t table = 0; table < OP_COUNT(tables); table++) {
        if (domain_index(tables[table]->domain) != index)
            continue;
        for (uint32_t row = 0; row < tables[table]->count; row++) {
            uint32_t distance = edit_distance(op_type, tables[table]->rows[row].op_type, 3);

            if (distance < best) {
                best = distance;
                nearest = tables[table]->rows[row].op_type;
            }
        }
    }
    return nearest;
}

const op_table *const *op_tables(uint32_t *out_count)
{
    *out_count = OP_COUNT(tables);
    return tables;
}
