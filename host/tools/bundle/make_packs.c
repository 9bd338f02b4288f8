/* The packed weights that the first runs of a bundle made. */
#include "inlay/check.h"
#include "base/hash.h"
#include "bundle/maker.h"
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* The bits of bundle_level() other than those for int8 GEMM. */
enum { LEVEL_BASE = 15 };
enum { MAX_LEVELS = 3 };
/* Entries up to this size are properties of a constant that a provider has found, not weights. */
enum { FACT_BYTES = 64 };

static int by_key(const void *left, const void *right)
{
    const bundle_pack_entry *first = left, *second = right;

    if (first->key[0] != second->key[0])
        return first->key[0] < second->key[0] ? -1 : 1;
    return first->key[1] < second->key[1] ? -1 : first->key[1] > second->key[1];
}

/* The file that a first run writes. */
typedef struct pack_report {
    unsigned char *bytes; /* the whole file, allocated */
    uint64_t size;
    uint64_t level, arena_bytes;
    const unsigned char *fates, *packs, *end;
} pack_report;

static bool read_report(struct maker *maker, uint32_t level, pack_report *out)
{
    char *path = arena_format(&maker->collection->arena, "%s/report.%u", maker->job->dir, level);
    FILE *file = path != NULL ? fopen(path, "rb") : NULL;
    uint64_t fates = 0;
    struct stat st;
    bool good = file != NULL && fstat(fileno(file), &st) == 0 && st.st_size >= 16;

    for (uint32_t i = 0; i < maker->collection->step_count; i++)
        if (maker->collection->steps[i].opcode == DO_RUN)
            fates += maker->facts.values[maker->collection->steps[i].part];
    out->size = good ? (uint64_t)st.st_size : 0;
    out->bytes = good ? malloc((size_t)out->size) : NULL;
    good = out->bytes != NULL && out->size >= 16 + fates && fread(out->bytes, 1, (size_t)out->size, file) == out->size;
    if (file != NULL)
        (void)fclose(file);
    if (!good)
        return false;
    memcpy(&out->level, out->bytes, 8);
    memcpy(&out->arena_bytes, out->bytes + 8, 8);
    out->fates = out->bytes + 16;
    out->packs = out->fates + fates;
    out->end = out->bytes + out->size;
    return true;
}

/* Marks the constants that a step other than a region reads: a copy, for instance of a constant that is an output, or
 * of the initial state of a Loop. */
static void mark_copied(struct maker *maker, const bundle_operation *operation)
{
    for (uint32_t i = 0; i < operation->in_count; i++)
        for (uint32_t part = 0;
             maker->collection->items[operation->in[i]].kind == ITEM_DATA && part < maker->collection->part_count;
             part++)
            for (uint32_t value = 0; value < maker->collection->parts[part].program->graph->value_count; value++)
                if (maker->collection->parts[part].item_of[value] == operation->in[i])
                    maker->facts.unread[part][value] |= 2;
}

/* Marks the constants that a program can exclude: all their readers packed them. fates: [value_count] for every region,
 * in the order of the steps. */
static bool find_unread(struct maker *maker, const unsigned char *fates)
{
    const bool first = maker->facts.unread == NULL;

    if (first)
        maker->facts.unread = arena_array(&maker->collection->arena, (size_t)maker->collection->part_count + 1,
                                          sizeof *maker->facts.unread);
    for (uint32_t i = 0; first && maker->facts.unread != NULL && i < maker->collection->part_count; i++) {
        maker->facts.unread[i] =
            arena_alloc(&maker->collection->arena, (size_t)maker->collection->parts[i].program->graph->value_count + 1);
        if (maker->facts.unread[i] == NULL)
            return false;
    }
    for (uint32_t i = 0; maker->facts.unread != NULL && i < maker->collection->step_count; i++) {
        const bundle_operation *operation = &maker->collection->steps[i];
        const struct graph *graph =
            operation->opcode == DO_RUN ? maker->collection->parts[operation->part].program->graph : NULL;

        mark_copied(maker, operation);
        for (uint32_t k = 0; graph != NULL && k < operation->step->region->node_count; k++) {
            const inlay_node_info *node = &graph->nodes[operation->step->region->nodes[k]]->info;

            for (uint32_t input = 0; input < node->input_count; input++)
                if (node->inputs[input] != INLAY_NONE)
                    maker->facts.unread[operation->part][node->inputs[input]] |=
                        fates[maker->facts.value[operation->part][node->inputs[input]]] == INLAY_CONST_PACKED ? 1 : 2;
        }
        fates += graph != NULL ? maker->facts.values[operation->part] : 0;
    }
    return maker->facts.unread != NULL;
}

/* Selection of packed weights.
 *
 * At every level the program contains either a constant, or all weights that are packed from it. Packed weights that
 * are in the program in addition to their constant only make the start faster. */

/* One entry of packed weights in a report. */
struct pack {
    bundle_pack_entry entry;
    const unsigned char *data;
    uint64_t source; /* content_hash of the constant that it was packed from; 0: unknown */
    uint64_t hash;   /* of its bytes */
    uint32_t same;   /* index of the first pack with the same bytes: itself, or an earlier one */
};

/* The packs of one constant, or of unknown constants. */
struct source {
    uint64_t hash;
    uint64_t packs, freed; /* bytes of its packs, and bytes saved if they replace the constant */
    bool kept;
};

struct choice {
    struct pack *packs;
    struct source *sources;
    uint32_t pack_count, source_count;
};

/* Lists the packs of a report. out NULL: only counts them. */
static bool list_packs(const struct maker *maker, const pack_report *report, struct pack *out, uint32_t *count)
{
    uint64_t head[4];

    for (const unsigned char *at = report->packs; at < report->end; at += head[3], ++*count) {
        if ((uint64_t)(report->end - at) < sizeof head)
            return false;
        memcpy(head, at, sizeof head);
        at += sizeof head;
        if ((uint64_t)(report->end - at) < head[3])
            return false;
        if (out != NULL)
            out[*count] = (struct pack){
                { { head[0] ^ (report->level & maker->facts.packs_levels), head[1] }, head[3], 0, false },
                at,
                head[2],
                hash_blocks(at, (size_t)head[3], 0),
                *count
            };
    }
    return true;
}

static struct source *find_source(const struct choice *choice, uint64_t hash)
{
    for (uint32_t i = 0; i < choice->source_count; i++)
        if (choice->sources[i].hash == hash)
            return &choice->sources[i];
    return NULL;
}

/* Bytes by which the program shrinks without the constant: 0 if a region reads the constant itself. */
static uint64_t freed_by(const struct maker *maker, uint64_t hash)
{
    uint64_t bytes = 0;

    for (uint32_t part = 0; maker->facts.unread != NULL && part < maker->collection->part_count; part++) {
        const struct graph *graph = maker->collection->parts[part].program->graph;

        for (uint32_t value = 0; value < graph->value_count; value++) {
            if (graph->values[value].info.content_hash != hash || graph->values[value].info.data == NULL)
                continue;
            if (maker->facts.unread[part][value] > 1)
                return 0;
            bytes += maker->facts.unread[part][value] == 1 ? graph->values[value].info.data_bytes : 0;
        }
    }
    return bytes;
}

static bool list_sources(struct maker *maker, struct choice *choice)
{
    choice->sources = arena_array(&maker->collection->arena, (size_t)choice->pack_count + 1, sizeof *choice->sources);
    if (choice->sources == NULL)
        return false;
    for (uint32_t i = 0; i < choice->pack_count; i++) {
        struct pack *pack = &choice->packs[i];
        struct source *source = find_source(choice, pack->source);

        for (uint32_t k = 0; k < i && pack->same == i; k++)
            if (choice->packs[k].entry.bytes == pack->entry.bytes && choice->packs[k].hash == pack->hash)
                pack->same = k;
        if (source == NULL) {
            source = &choice->sources[choice->source_count++];
            *source = (struct source){ pack->source, 0, pack->source != 0 ? freed_by(maker, pack->source) : 0, false };
        }
        source->packs += pack->same == i && pack->entry.bytes > FACT_BYTES ? pack->entry.bytes : 0;
    }
    return true;
}

/* Orders by the growth of the program per byte of packs, least first. Packs of unknown constants come first: no
 * constant can be excluded unless they are included. */
static int by_growth(const void *left, const void *right)
{
    const struct source *first = left, *second = right;
    const double first_growth = ((double)first->packs - (double)first->freed) / (double)(first->packs + 1);
    const double second_growth = ((double)second->packs - (double)second->freed) / (double)(second->packs + 1);

    if ((first->hash == 0) != (second->hash == 0))
        return first->hash == 0 ? -1 : 1;
    if (first_growth != second_growth)
        return first_growth < second_growth ? -1 : 1;
    return first->hash < second->hash ? -1 : first->hash > second->hash;
}

static void choose_sources(const struct maker *maker, struct choice *choice)
{
    const double limit = maker->job->size * (double)maker->job->made.constant_bytes;
    double total = (double)maker->job->made.constant_bytes;
    bool all_known = true;

    qsort(choice->sources, choice->source_count, sizeof *choice->sources, by_growth);
    for (uint32_t i = 0; i < choice->source_count; i++) {
        struct source *source = &choice->sources[i];

        if (!all_known)
            source->freed = 0;
        source->kept = source->packs <= source->freed || total + (double)source->packs - (double)source->freed <= limit;
        total += source->kept ? (double)source->packs - (double)source->freed : 0;
        all_known = all_known && (source->hash != 0 || source->kept);
    }
}

/* Keeps the constants whose packs are not included. */
static void keep_constants(struct maker *maker, const struct choice *choice)
{
    maker->facts.drops = false;
    for (uint32_t part = 0; maker->facts.unread != NULL && part < maker->collection->part_count; part++) {
        const struct graph *graph = maker->collection->parts[part].program->graph;

        for (uint32_t value = 0; value < graph->value_count; value++) {
            const struct source *source = find_source(choice, graph->values[value].info.content_hash);

            if (maker->facts.unread[part][value] == 1 &&
                (source == NULL || source->hash == 0 || !source->kept || source->freed == 0))
                maker->facts.unread[part][value] = 2;
            maker->facts.drops |= maker->facts.unread[part][value] == 1;
        }
    }
}

/* Writes the included packs to packs.bin, and the table of all packs. */
static bool write_packs(struct maker *maker, struct choice *choice, FILE *to)
{
    static const char zeros[64];
    uint64_t at = 0;

    maker->facts.packs =
        arena_array(&maker->collection->arena, (size_t)choice->pack_count + 1, sizeof *maker->facts.packs);
    for (uint32_t i = 0; maker->facts.packs != NULL && i < choice->pack_count; i++) {
        struct pack *pack = &choice->packs[i], *same = &choice->packs[pack->same];
        const uint64_t pad = (64 - pack->entry.bytes % 64) % 64;
        INLAY_CHECK(pack->same <= i);
        pack->entry.kept = find_source(choice, pack->source)->kept;
        if (pack->entry.kept && same->entry.kept && same != pack) {
            pack->entry.offset = same->entry.offset;
        } else if (pack->entry.kept) {
            pack->entry.offset = at;
            if (fwrite(pack->data, 1, (size_t)pack->entry.bytes, to) != pack->entry.bytes ||
                fwrite(zeros, 1, pad, to) != pad)
                return false;
            at += pack->entry.bytes + pad;
        }
        maker->facts.packs[maker->facts.pack_count++] = pack->entry;
        if (pack->entry.bytes > FACT_BYTES)
            ++*(pack->entry.kept ? &maker->job->made.pack_count : &maker->job->made.start_count);
    }
    maker->facts.packs_bytes = at;
    return maker->facts.packs != NULL;
}

/* Selects from the packs of `count` reports and writes them. */
static inlay_status select_packs(struct maker *maker, const pack_report *list, uint32_t count)
{
    struct choice choice = { 0 };
    uint32_t total = 0;
    FILE *to = NULL;
    inlay_status status;
    bool good = true;

    for (uint32_t i = 0; i < count; i++)
        good = good && list_packs(maker, &list[i], NULL, &total);
    choice.packs = arena_array(&maker->collection->arena, (size_t)total + 1, sizeof *choice.packs);
    for (uint32_t i = 0; good && choice.packs != NULL && i < count; i++)
        good = list_packs(maker, &list[i], choice.packs, &choice.pack_count);
    if (choice.packs == NULL || !good || !list_sources(maker, &choice))
        return inlay_fail(maker->diag, INLAY_IO_ERROR, "the report of the bundle's first run is not readable");
    choose_sources(maker, &choice);
    keep_constants(maker, &choice);
    INLAY_TRY(maker_write_file(maker, "packs.bin", &to));
    good = write_packs(maker, &choice, to);
    INLAY_TRY(maker_close_file(maker, to, "packs.bin"));
    if (!good)
        return inlay_fail(maker->diag, INLAY_IO_ERROR, "cannot write the bundle's packed weights");
    if (maker->facts.pack_count > 0)
        qsort(maker->facts.packs, maker->facts.pack_count, sizeof *maker->facts.packs, by_key);
done:
    return status;
}

/* Memory of runs.
 *
 * For one report: its packs, and the constants that are also read unpacked. */

static bool count_memory(struct maker *maker, const pack_report *report)
{
    uint64_t bytes = maker->job->made.constant_bytes, head[4];
    const unsigned char *at = report->packs;
    bool good = find_unread(maker, report->fates);

    for (uint32_t i = 0; good && i < maker->collection->part_count; i++)
        for (uint32_t value = 0; value < maker->collection->parts[i].program->graph->value_count; value++)
            bytes -= maker->facts.unread[i][value] == 1
                         ? maker->collection->parts[i].program->graph->values[value].info.data_bytes
                         : 0;
    maker->facts.unread = NULL;
    for (; good && at < report->end; at += head[3]) {
        good = (uint64_t)(report->end - at) >= sizeof head;
        if (!good)
            break;
        memcpy(head, at, sizeof head);
        at += sizeof head;
        good = (uint64_t)(report->end - at) >= head[3];
        bytes += head[3];
    }
    maker->job->made.memory_bytes = bytes > maker->job->made.memory_bytes ? bytes : maker->job->made.memory_bytes;
    return good;
}

/* Reads the reports of `count` runs, one for each level. Returns their number; 0: one could not be read. */
static uint32_t read_reports(struct maker *maker, uint32_t count, pack_report *list, uint64_t *levels)
{
    uint32_t used = 0;

    for (uint32_t i = 0; i < count; i++) {
        uint32_t same = 0;

        if (!read_report(maker, i, &list[used]))
            return 0;
        if (list[used].arena_bytes > maker->facts.arena_bytes)
            maker->facts.arena_bytes = list[used].arena_bytes;
        while (same < used && levels[same] != list[used].level)
            same++;
        if (same < used) {
            free(list[used].bytes); /* an earlier run had this level: this CPU cannot emulate the other kind */
            list[used].bytes = NULL;
        } else {
            levels[used] = list[used].level;
            used++;
        }
    }
    maker->facts.arena_bytes = (maker->facts.arena_bytes + 4095) / 4096 * 4096;
    return used;
}

/* Whether the packs differ between levels. */
static bool differ(const pack_report *list, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++)
        if (list[0].size != list[i].size ||
            memcmp(list[0].fates, list[i].fates, (size_t)(list[0].end - list[0].fates)) != 0)
            return true;
    return false;
}

/* Whether all kinds of CPU with different int8 GEMM were tested, see bundle_limit_byte_kernels(). */
static bool is_whole(const struct maker *maker, const uint64_t *levels, uint32_t count)
{
    static const uint64_t kinds[] = { 2, 2 + 32, 3 + 16 }; /* AVX2, AVX-VNNI, AVX-512 VNNI */
    uint32_t found = maker->names.isa != NULL;             /* a program for AVX2 does not need AVX-512 VNNI */

    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < 3; k++)
            found += levels[i] == kinds[k];
    return found == 3;
}

inlay_status maker_read_reports(struct maker *maker, uint32_t count)
{
    pack_report list[MAX_LEVELS] = { { 0 } };
    uint64_t levels[MAX_LEVELS] = { 0 };
    const provider_part *bytes = maker_part(maker, "byte_set_of_cpu");
    inlay_status status;
    bool good;

    count = read_reports(maker, count, list, levels);
    good = count > 0;
    maker->job->made.constant_bytes =
        maker->job->made.data_bytes; /* the first program has all constants and no packs */
    for (uint32_t i = 0; good && i < count; i++)
        good = count_memory(maker, &list[i]);
    if (good && maker->native)
        maker->facts.only_level = (uint32_t)levels[0];
    else if (good)
        maker_keep_untested(maker, levels, count);
    if (good && !maker->native && bytes != NULL && bytes->needed && strncmp(maker->job->target, "x86_64", 6) == 0)
        maker->facts.packs_levels = UINT32_MAX; /* even with one report: other CPUs use other layouts */
    else if (differ(list, count))
        maker->facts.packs_levels = LEVEL_BASE;
    for (uint32_t i = 0;
         good && (maker->facts.packs_levels != UINT32_MAX || is_whole(maker, levels, count)) && i < count; i++)
        good = find_unread(maker, list[i].fates);
    status = good ? select_packs(maker, list, maker->facts.packs_levels == 0 ? 1 : count)
                  : inlay_fail(maker->diag, INLAY_IO_ERROR, "the report of the bundle's first run is not readable");
    for (uint32_t i = 0; i < MAX_LEVELS; i++)
        free(list[i].bytes);
    return status;
}

void maker_keep_constants(struct maker *maker)
{
    for (uint32_t part = 0; part < maker->collection->part_count; part++)
        memset(maker->facts.unread[part], 2, maker->collection->parts[part].program->graph->value_count);
    maker->facts.drops = false;
}

inlay_status maker_read_arena(struct maker *maker, uint32_t count)
{
    uint64_t peak = 0;

    for (uint32_t i = 0; i < count; i++) {
        pack_report report = { 0 };

        if (!read_report(maker, i, &report))
            return inlay_fail(maker->diag, INLAY_IO_ERROR, "the report of the bundle's run is not readable");
        peak = report.arena_bytes > peak ? report.arena_bytes : peak;
        free(report.bytes);
    }
    maker->facts.arena_bytes = (peak + 4095) / 4096 * 4096;
    return INLAY_OK;
}
