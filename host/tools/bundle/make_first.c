/* The first runs of a bundle: missing parts, nodes that providers cannot compile, and packed weights. */
#include "bundle/maker.h"
#include <stdlib.h>
#include <string.h>

enum { MISSED = 5 }; /* exit code of prepare.c */

uint32_t maker_emulator(struct maker *maker, bool is_result, char **argv)
{
    char folder[PATH_MAX];

    if (maker_is_native(maker))
        return 0;
    argv[0] = (char *)(uintptr_t)(strncmp(maker->job->target, "aarch64", 7) == 0 ? "qemu-aarch64" : "false");
    if (!maker_is_wasm(maker) || !maker_find_runtime(maker->job->target, folder))
        return 1;
    (void)snprintf(maker->script, sizeof maker->script, "%s/include/%s", folder, is_result ? "try.mjs" : "run.mjs");
    argv[0] = (char *)(uintptr_t) "node";
    argv[1] = maker->script;
    return 2;
}

/* Finds the refused node, which may be named only in the message, and its operator. */
static void find_node(struct maker *maker, const char *reason)
{
    const char *begin = strstr(reason, "node '"), *end = begin != NULL ? strchr(begin + 6, '\'') : NULL;

    if (maker->job->made.node[0] == '\0' && end != NULL)
        (void)snprintf(maker->job->made.node, sizeof maker->job->made.node, "%.*s", (int)(end - begin - 6), begin + 6);
    maker->job->made.op[0] = '\0';
    for (uint32_t part = 0; part < maker->collection->part_count; part++) {
        const struct graph *graph = maker->collection->parts[part].program->graph;

        for (uint32_t node = 0; node < graph->node_count; node++)
            if (strcmp(graph->nodes[node]->info.name.data, maker->job->made.node) == 0)
                (void)snprintf(maker->job->made.op, sizeof maker->job->made.op, "%s",
                               graph->nodes[node]->info.op_type.data);
    }
    if (maker->job->made.op[0] == '\0')
        maker->job->made.node[0] = '\0';
}

/* Reads what the program printed when a provider could not compile a region: the node, then the reason. */
static inlay_status read_refusal(struct maker *maker)
{
    FILE *file = fopen(maker->log, "r");
    char reason[400] = "";

    if (file != NULL && fgets(maker->job->made.node, sizeof maker->job->made.node, file) != NULL)
        (void)!fgets(reason, sizeof reason, file);
    if (file != NULL)
        (void)fclose(file);
    maker->job->made.node[strcspn(maker->job->made.node, "\n")] = '\0';
    reason[strcspn(reason, "\n")] = '\0';
    find_node(maker, reason);
    return inlay_fail(maker->diag, INLAY_UNSUPPORTED, "%s", reason);
}

/* Marks the excluded parts that the first run needs. A run of the same program at an earlier level (*out_again) may
 * have reported them, too. */
static inlay_status read_missed(struct maker *maker, bool *out_again)
{
    const bool reported = *out_again;
    inlay_status status = INLAY_OK;
    FILE *file = fopen(maker->log, "r");
    char name[80];

    *out_again = true;
    while (file != NULL && status == INLAY_OK && fgets(name, sizeof name, file) != NULL) {
        provider_part *part;

        name[strcspn(name, "\n")] = '\0';
        part = maker_part(maker, name);
        if (part == NULL || (part->needed && !reported))
            status = inlay_fail(maker->diag, INLAY_INTERNAL, "the bundle needs the unknown part '%s'", name);
        else
            part->needed = true;
    }
    if (file != NULL)
        (void)fclose(file);
    return status;
}

/* The kinds of CPU that first runs cover: this CPU, and kinds that it can emulate by using fewer instructions. */
typedef struct first_level {
    const char *isa;
    bool plain; /* without AVX-VNNI */
} first_level;

uint32_t maker_level_count(const struct maker *maker)
{
    const provider_part *bytes = maker_part(maker, "byte_set_of_cpu");

    if (maker->native || !maker_is_native(maker) || strncmp(maker->job->target, "x86_64", 6) != 0)
        return 1;
    return 1 + (maker->names.isa == NULL) + (bytes != NULL && bytes->needed);
}

inlay_status maker_first_run(struct maker *maker, const char *file, uint32_t level, bool *out_again)
{
    static const first_level levels[] = { { "auto", false }, { "avx2", false }, { "avx2", true } };
    const first_level *kind = &levels[level > 0 && maker->names.isa != NULL ? level + 1 : level];
    char *started = maker_path(maker, maker->job->dir, file);
    char folder[PATH_MAX]; /* absolute, for run.mjs */
    char *wrote = realpath(maker->job->dir, folder) == NULL
                      ? NULL
                      : arena_format(&maker->collection->arena, "%s/report.%u", folder, level);
    const char *before = getenv("INLAY_ISA");
    char *argv[6];
    uint32_t count = maker_emulator(maker, false, argv);
    int code;

    if (started == NULL || wrote == NULL)
        return no_memory(maker->diag, "to write the bundle");
    if (before != NULL && (before = arena_format(&maker->collection->arena, "%s", before)) == NULL)
        return no_memory(maker->diag, "to write the bundle");
    argv[count++] = started;
    argv[count++] = wrote;
    argv[count++] = (char *)(uintptr_t)(kind->plain ? "plain" : "as is");
    argv[count] = NULL;
    (void)setenv("INLAY_ISA", kind->isa, 1);
    code = maker_run(argv, maker->log);
    (void)(before != NULL ? setenv("INLAY_ISA", before, 1) : unsetenv("INLAY_ISA"));
    maker->job->made.node[0] = '\0';
    if (code == 3)
        return read_refusal(maker);
    if (code == MISSED)
        return read_missed(maker, out_again);
    if (code == 127 && !maker_is_native(maker))
        return INLAY_OK; /* no emulator: the program packs weights when it starts */
    if (code != 0 && *out_again)
        return INLAY_OK;                   /* the next program may run */
    if (code != 0 && maker->facts.drops) { /* a provider reads a constant that it has also packed */
        maker_keep_constants(maker);
        *out_again = true;
        return INLAY_OK;
    }
    if (code != 0)
        return maker_failed(maker, "the first run of the bundle", argv[0], code);
    maker->job->made.prepared = true;
    return INLAY_OK;
}
