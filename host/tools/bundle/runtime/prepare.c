/* The first run of a bundle, while it is made: starts the model and writes the memory of the start and the packed
 * weights to a file. */
#include "bundle.h"
#include <stdio.h>
#include <unistd.h>

uint32_t bundle_level(void);
void cpu_hide_avx_vnni(void);
int bundle_prepare(const bundle_model *model, const char *path, int plain);
void bundle_report_missing(const char *name);
void bundle_note_missing(char *name);

/* Excluded parts of kernels that were called. */
enum { MAX_MISSING = 4096 };
static const char *missing[MAX_MISSING];
static uint32_t missing_count;

static void write_pack(void *ctx, const uint64_t key[2], uint64_t source, const void *data, uint64_t bytes)
{
    const uint64_t head[4] = { key[0], key[1], source, bytes };

    (void)fwrite(head, sizeof head, 1, ctx);
    (void)fwrite(data, 1, bytes, ctx);
}

/* Ends the run with the names of all missing parts. */
static _Noreturn void report_missing(const char *name)
{
    for (uint32_t i = 0; i < missing_count; i++)
        (void)fprintf(stderr, "%s\n", missing[i]);
    if (name != NULL)
        (void)fprintf(stderr, "%s\n", name);
    _exit(5);
}

/* After an excluded part of a kernel was called, results are arbitrary. A kernel that uses them as an index may fault,
 * or not end: then the part is missing. Otherwise the run ends with the node that was being compiled or run. */
static void report_fault(int signal)
{
    const inlay_node_info *node = bundle_current_node();

    if (missing_count > 0)
        report_missing(NULL);
    (void)fprintf(stderr, "%s node '%s': signal %d\n", node != NULL ? node->op_type.data : "",
                  node != NULL ? node->name.data : "", signal);
    _exit(1);
}

int bundle_prepare(const bundle_model *model, const char *path, int plain)
{
    uint64_t arena_bytes = UINT64_C(1) << 34;
    void *arena;
    FILE *to = fopen(path, "wb");
    static void *tensors[256];
    uint64_t head[2];
    int status;

    while ((arena = pages_map(arena_bytes)) == NULL && arena_bytes > 4096) /* as much as the address space permits */
        arena_bytes /= 2;
    if (arena == NULL || to == NULL)
        return 1;
    if (plain)
        cpu_hide_avx_vnni();
    faults_report(report_fault);
    status = bundle_start(model, arena, arena_bytes);
    if (status != INLAY_OK) {
        if (missing_count > 0)
            report_missing(NULL);
        (void)fprintf(stderr, "%s\n%s\n", bundle_error_node(), bundle_error());
        return status == INLAY_UNSUPPORTED ? 3 : 1;
    }
    for (uint32_t i = 0; i < model->input_count + model->output_count && i < 256; i++) {
        const bundle_tensor *tensor =
            i < model->input_count ? &model->inputs[i] : &model->outputs[i - model->input_count];

        tensors[i] = pages_map(tensor->bytes + 64);
        if (tensors[i] == NULL)
            return 1;
    }
    /* The run may pack more weights and call more parts than the start. */
    status = bundle_run(model, (const void *const *)tensors, tensors + model->input_count);
    if (status != INLAY_OK) {
        if (missing_count > 0)
            report_missing(NULL);
        (void)fprintf(stderr, "%s\n", bundle_error());
        return 1;
    }
    bundle_run_all(model, (const void *const *)tensors, tensors + model->input_count);
    if (missing_count > 0)
        report_missing(NULL);
    head[0] = bundle_level();
    head[1] = bundle_arena_peak();
    (void)fwrite(head, sizeof head, 1, to);
    for (uint32_t region = 0; region < model->region_count; region++)
        (void)fwrite(bundle_constant_fates(region), 1, model->regions[region].graph->value_count, to);
    bundle_made_packs(write_pack, to);
    return fclose(to) == 0 ? 0 : 1;
}

/* An excluded function calls it with its name: the run ends. */
void bundle_report_missing(const char *name)
{
    report_missing(name);
}

/* The stub of an excluded part of a kernel calls it. name: a byte that is 1 once the part was reported, then the part's
 * name. */
void bundle_note_missing(char *name)
{
    if (missing_count == 0)
        faults_limit_time();
    if (name[0] == 0 && missing_count < MAX_MISSING)
        missing[missing_count++] = name + 1;
    name[0] = 1;
}
