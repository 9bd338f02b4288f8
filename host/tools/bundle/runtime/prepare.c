/* The first run of a bundle, while it is made: starts the model and writes down what that took and what was packed. */
#include "bundle.h"
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

uint32_t bundle_level(void);
void cpu_hide_avx_vnni(void);
int bundle_prepare(const bundle_model *model, const char *path, int plain);
void bundle_missed(const char *name);
void bundle_lacks(char *name);

/* Parts of kernels that were called and are not there. */
enum { MOST_LACKED = 4096 };
static const char *lacked[MOST_LACKED];
static uint32_t lacked_count;

static void write_pack(void *ctx, const uint64_t key[2], uint64_t source, const void *data, uint64_t bytes)
{
    const uint64_t head[4] = { key[0], key[1], source, bytes };

    (void)fwrite(head, sizeof head, 1, ctx);
    (void)fwrite(data, 1, bytes, ctx);
}

/* Ends the run with the names of all that is missing. */
static _Noreturn void tell_missed(const char *name)
{
    for (uint32_t i = 0; i < lacked_count; i++)
        (void)fprintf(stderr, "%s\n", lacked[i]);
    if (name != NULL)
        (void)fprintf(stderr, "%s\n", name);
    _exit(5);
}

int bundle_prepare(const bundle_model *model, const char *path, int plain)
{
    const uint64_t room = UINT64_C(1) << 34;
    void *arena = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    FILE *to = fopen(path, "wb");
    static void *tensors[256];
    uint64_t head[2];
    int status;

    if (arena == MAP_FAILED || to == NULL)
        return 1;
    if (plain)
        cpu_hide_avx_vnni();
    status = bundle_start(model, arena, room);
    if (status != INLAY_OK) {
        if (lacked_count > 0)
            tell_missed(NULL);
        (void)fprintf(stderr, "%s\n%s\n", bundle_error_node(), bundle_error());
        return status == INLAY_UNSUPPORTED ? 3 : 1;
    }
    for (uint32_t i = 0; i < model->input_count + model->output_count && i < 256; i++) {
        const bundle_tensor *tensor =
            i < model->input_count ? &model->inputs[i] : &model->outputs[i - model->input_count];

        tensors[i] = mmap(NULL, tensor->bytes + 64, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (tensors[i] == MAP_FAILED)
            return 1;
    }
    /* What is only made in a run counts, and so do the parts that it calls. */
    status = bundle_run(model, (const void *const *)tensors, tensors + model->input_count);
    if (status != INLAY_OK) {
        if (lacked_count > 0)
            tell_missed(NULL);
        (void)fprintf(stderr, "%s\n", bundle_error());
        return 1;
    }
    bundle_run_all(model, (const void *const *)tensors, tensors + model->input_count);
    if (lacked_count > 0)
        tell_missed(NULL);
    head[0] = bundle_level();
    head[1] = bundle_arena_peak();
    (void)fwrite(head, sizeof head, 1, to);
    for (uint32_t region = 0; region < model->region_count; region++)
        (void)fwrite(bundle_constant_fates(region), 1, model->regions[region].graph->value_count, to);
    bundle_made_packs(write_pack, to);
    return fclose(to) == 0 ? 0 : 1;
}

/* A part that was left out is called after all. */
void bundle_missed(const char *name)
{
    tell_missed(name);
}

/* Called by what stands for a part: a byte that says whether it was told, then its name. */
void bundle_lacks(char *name)
{
    if (name[0] == 0 && lacked_count < MOST_LACKED)
        lacked[lacked_count++] = name + 1;
    name[0] = 1;
}
