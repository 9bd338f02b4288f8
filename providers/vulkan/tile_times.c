/* Measures the tiles of products on a device by time stamps of its queue: the time of a chunk of k for one tile, and
 * for enough tiles to occupy the whole device. It includes launches and epilogues: the difference between two lengths
 * of k has none, but is sometimes negative on a busy machine. The sums of parts of k are measured, too. */
#include "inlay/check.h"
#include "vulkan/region.h"
#include "simd/clock.h"
#include <math.h>
#include <stdlib.h>

/* LENGTH: k, in units of tiles.comp. FULL: tiles on a full device; a CPU driver would take too long for as many. PANEL:
 * columns of a panel of B. FILL: of all operands; normal numbers as float, float16 and bytes. */
enum { A, B, RESULT, OPERANDS };
enum { LENGTH = 1024, FULL = 512, FULL_CPU = 8, PANEL = 128, FILL = 0x3c003c00 };
enum { FEW, MANY, POINTS, MAX_TIMES = POINTS * (VULKAN_MAX_TILES + 1), MAX_ROUNDS = 5, LIMIT_MS = 200 };
/* Sums of parts: few floats, and as many as parts of 128 x 768 have. */
enum { PARTS = 4, SUMS_FEW = 256, SUMS_MANY = 98304 };

static const inlay_dtype types[][OPERANDS] = {
    [VULKAN_TILES_FLOAT] = { INLAY_FLOAT, INLAY_FLOAT, INLAY_FLOAT },
    [VULKAN_TILES_BYTES] = { INLAY_UINT8, INLAY_INT8, INLAY_INT32 },
    [VULKAN_TILES_HALF] = { INLAY_FLOAT16, INLAY_FLOAT16, INLAY_FLOAT16 },
    [VULKAN_TILES_BYTE_MATRICES] = { INLAY_UINT8, INLAY_INT8, INLAY_INT32 },
};

/* A region without nodes, whose dispatches are the products that are timed. All of them have the same operands. */
struct trial {
    inlay_compiled compiled;
    inlay_instance in;
    vulkan_build build;
    vulkan_value values[OPERANDS];
    vulkan_tensor tensors[OPERANDS];
    uint64_t offsets[OPERANDS + 1];
    vulkan_tile_kind kind;
    const vulkan_tiling *tiles[VULKAN_MAX_TILES];
    uint32_t tile_count;
    VkQueryPool pool;
    VkCommandBuffer commands;
};

static uint32_t tiles_of_point(const gpu_facts *facts, uint32_t point)
{
    return point == FEW ? 1 : facts->type == VK_PHYSICAL_DEVICE_TYPE_CPU ? FULL_CPU : FULL;
}

static bool are_bytes(vulkan_tile_kind kind)
{
    return kind == VULKAN_TILES_BYTES || kind == VULKAN_TILES_BYTE_MATRICES;
}

static int64_t length_of(vulkan_tile_kind kind)
{
    return are_bytes(kind) ? 4 * LENGTH : LENGTH;
}

static vulkan_product product_of(const struct trial *trial, const vulkan_tiling *tile, uint32_t point)
{
    const gpu_facts *facts = &trial->compiled.gpu->facts;
    const int64_t height = vulkan_tile_height(facts, trial->kind, tile),
                  width = vulkan_tile_width(facts, trial->kind, tile);
    const int64_t count = tiles_of_point(facts, point), down = count == 1 || height <= 8 ? 1 : count == FULL ? 16 : 2;
    vulkan_product product = vulkan_product_of(down * height, length_of(trial->kind), count / down * width);

    product.tile = tile;
    product.packed = true;
    product.b_step = PANEL;
    product.b_panel = product.k * PANEL;
    product.integers = product.int32 = are_bytes(trial->kind);
    product.kind = trial->kind;
    product.a_zero = product.b_zero = product.bias = INLAY_NONE;
    return product;
}

static void count_elements(const vulkan_product *product, int64_t counts[OPERANDS])
{
    counts[A] = product->line * product->k;
    counts[B] = (product->n + PANEL - 1) / PANEL * PANEL * product->k;
    counts[RESULT] = product->line * product->n;
}

/* Places the operands in one buffer, each with room for its largest size. */
static void place_operands(struct trial *trial)
{
    trial->offsets[B + 1] = PARTS * SUMS_MANY * sizeof(float);
    trial->offsets[RESULT + 1] = SUMS_MANY * sizeof(float);
    for (uint32_t i = 0; i < trial->tile_count * POINTS; i++) {
        const vulkan_product product = product_of(trial, trial->tiles[i / POINTS], i % POINTS);
        int64_t counts[OPERANDS];

        count_elements(&product, counts);
        for (uint32_t operand = 0; operand < OPERANDS; operand++) {
            const uint64_t bytes = (uint64_t)counts[operand] * vulkan_size_of(types[trial->kind][operand]);

            if (trial->offsets[operand + 1] < bytes)
                trial->offsets[operand + 1] = bytes;
        }
    }
    for (uint32_t operand = 0; operand < OPERANDS; operand++)
        trial->offsets[operand + 1] =
            trial->offsets[operand] + (trial->offsets[operand + 1] + GPU_ALIGNMENT - 1) / GPU_ALIGNMENT * GPU_ALIGNMENT;
}

static void set_tensor(struct trial *trial, uint32_t operand, inlay_dtype dtype, int64_t count)
{
    const vulkan_buffer buffer = { .kind = VULKAN_CONSTANT,
                                   .offset = trial->offsets[operand],
                                   .bytes = trial->offsets[operand + 1] - trial->offsets[operand] };

    trial->tensors[operand] = (vulkan_tensor){ .rank = 1,
                                               .dims = { count },
                                               .count = count,
                                               .dtype = dtype,
                                               .place = vulkan_buffer_place(&trial->build, buffer) };
}

static inlay_status emit_point(struct trial *trial, const vulkan_tiling *tile, uint32_t point)
{
    vulkan_product product = product_of(trial, tile, point);
    vulkan_program program;
    int64_t counts[OPERANDS];

    count_elements(&product, counts);
    for (uint32_t operand = 0; operand < OPERANDS; operand++)
        set_tensor(trial, operand, types[trial->kind][operand], counts[operand]);
    product.a = vulkan_source_of(&trial->build, A);
    product.b = vulkan_source_of(&trial->build, B);
    vulkan_program_start(&trial->build, &program, RESULT, product.int32 ? VULKAN_INTEGER : VULKAN_SINGLE);
    return vulkan_emit_product(&trial->build, &product, &program);
}

static inlay_status emit_sums(struct trial *trial, uint32_t point)
{
    const int64_t count = point == FEW ? SUMS_FEW : SUMS_MANY;
    vulkan_program program;

    set_tensor(trial, B, INLAY_FLOAT, PARTS * count);
    set_tensor(trial, RESULT, INLAY_FLOAT, count);
    vulkan_program_start(&trial->build, &program, RESULT, VULKAN_SINGLE);
    return vulkan_emit_part_sums(&trial->build, PARTS, B, &program);
}

static inlay_status record(struct trial *trial, inlay_diag *diag)
{
    gpu_device *device = trial->compiled.gpu;
    const gpu_functions *vk = &device->vk;
    inlay_status status = gpu_commands_create(device, 1, &trial->commands, diag);

    if (status == INLAY_OK)
        status = gpu_record_begin(device, trial->commands, diag);
    if (status != INLAY_OK)
        return status;
    vk->CmdResetQueryPool(trial->commands, trial->pool, 0, 2 * MAX_TIMES);
    vk->CmdFillBuffer(trial->commands, trial->compiled.memory.buffer, 0, trial->offsets[OPERANDS], FILL);
    for (uint32_t i = 0; i < trial->in.dispatch_count; i++) {
        gpu_barrier(device, trial->commands);
        vk->CmdWriteTimestamp(trial->commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, trial->pool, 2 * i);
        vulkan_record_dispatch(&trial->compiled, &trial->in, NULL, &trial->in.dispatches[i], trial->commands);
        vk->CmdWriteTimestamp(trial->commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, trial->pool, 2 * i + 1);
    }
    gpu_barrier(device, trial->commands);
    return gpu_record_end(device, trial->commands, diag);
}

/* Runs all products, and keeps the shortest time of each. */
static inlay_status run_round(struct trial *trial, double *ns, inlay_diag *diag)
{
    gpu_device *device = trial->compiled.gpu;
    const uint32_t bits = device->stamp_bits;
    const uint64_t mask = bits < 64 ? (UINT64_C(1) << bits) - 1 : UINT64_MAX;
    uint64_t stamps[2 * MAX_TIMES] = { 0 }, value;
    inlay_status status = INLAY_OK;

    INLAY_TRY(gpu_submit(device, trial->commands, &value, diag));
    INLAY_TRY(gpu_wait(device, value, NULL, NULL, diag));
    INLAY_TRY(gpu_check(device,
                        device->vk.GetQueryPoolResults(device->device, trial->pool, 0, 2 * trial->in.dispatch_count,
                                                       sizeof stamps, stamps, sizeof stamps[0], VK_QUERY_RESULT_64_BIT),
                        "reading time stamps", diag));
    for (uint32_t i = 0; i < trial->in.dispatch_count; i++) {
        const double took = (double)((stamps[2 * i + 1] - stamps[2 * i]) & mask) * (double)device->facts.stamp_ns;

        ns[i] = ns[i] == 0 || took < ns[i] ? took : ns[i];
    }
done:
    return status;
}

static void release(struct trial *trial)
{
    gpu_device *device = trial->compiled.gpu;

    if (trial->commands != VK_NULL_HANDLE)
        gpu_commands_destroy(device, 1, &trial->commands);
    if (__atomic_load_n(&device->lost, __ATOMIC_ACQUIRE) == 0)
        device->vk.DestroyQueryPool(device->device, trial->pool, NULL);
    gpu_buffer_destroy(device, &trial->in.parameters);
    gpu_buffer_destroy(device, &trial->compiled.memory);
    free(trial->in.dispatches);
    free(trial->in.buffers);
    free(trial->in.words);
    free(trial);
}

static void log_time(const struct trial *trial, uint32_t i, const vulkan_tile_time *time)
{
    const vulkan_tiling *tile = i < trial->tile_count ? trial->tiles[i] : NULL;
    const gpu_facts *facts = &trial->compiled.gpu->facts;
    const inlay_host *host = trial->compiled.state->host;
    char text[192];

    if (i == trial->tile_count)
        (void)snprintf(text, sizeof text, "vulkan: sums of parts: %.0f ns a dispatch, %.5f for each float",
                       (double)time->few, (double)time->many);
    else
        (void)snprintf(
            text, sizeof text, "vulkan: %s %lld x %lld, %lld k a chunk, %u ahead: %.1f ns alone, %.3f each of many",
            vulkan_tile_kind_name(trial->kind), (long long)vulkan_tile_height(facts, trial->kind, tile),
            (long long)vulkan_tile_width(facts, trial->kind, tile),
            (long long)vulkan_tile_chunk(facts, trial->kind, tile), tile->ahead, (double)time->few, (double)time->many);
    host->log(host->ctx, INLAY_LOG_DEBUG, text);
}

/* INLAY_UNSUPPORTED: the time stamps are too coarse. */
static inlay_status measure(vulkan_state *state, gpu_device *device, vulkan_tile_kind kind, vulkan_tile_time *out,
                            inlay_diag *diag)
{
    const VkQueryPoolCreateInfo info = { .sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO,
                                         .queryType = VK_QUERY_TYPE_TIMESTAMP,
                                         .queryCount = 2 * MAX_TIMES };
    struct trial *trial = calloc(1, sizeof *trial);
    double ns[MAX_TIMES] = { 0 };
    uint32_t rounds = 0;
    uint64_t start;
    inlay_status status = INLAY_OK;

    if (trial == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory to measure a device");
    trial->kind = kind;
    trial->compiled =
        (inlay_compiled){ .state = state, .gpu = device, .values = trial->values, .value_count = OPERANDS };
    trial->build = (vulkan_build){
        .compiled = &trial->compiled, .instance = &trial->in, .device = device, .diag = diag, .tensors = trial->tensors
    };
    trial->tile_count = vulkan_list_tiles(&device->facts, kind, trial->tiles);
    place_operands(trial);
    INLAY_TRY(gpu_check(device, device->vk.CreateQueryPool(device->device, &info, NULL, &trial->pool),
                        "making time stamps", diag));
    INLAY_TRY(gpu_buffer_create(device, trial->offsets[OPERANDS], &trial->compiled.memory, diag));
    for (uint32_t i = 0; i < trial->tile_count * POINTS; i++)
        INLAY_TRY(emit_point(trial, trial->tiles[i / POINTS], i % POINTS));
    for (uint32_t point = 0; point < POINTS; point++)
        INLAY_TRY(emit_sums(trial, point));
    INLAY_TRY(vulkan_prepare(&trial->build));
    INLAY_TRY(record(trial, diag));
    INLAY_TRY(run_round(trial, ns, diag)); /* drivers compile, and devices leave their idle state */
    memset(ns, 0, sizeof ns);
    start = clock_ns();
    do
        INLAY_TRY(run_round(trial, ns, diag));
    while (++rounds < MAX_ROUNDS && clock_ns() - start < LIMIT_MS * UINT64_C(1000000));
    for (uint32_t i = 0; i <= trial->tile_count; i++) {
        const double *of = &ns[POINTS * i];

        if (i < trial->tile_count) {
            const double chunks =
                (double)(length_of(kind) / vulkan_tile_chunk(&device->facts, kind, trial->tiles[i])); /* it divides */

            out[i] = (vulkan_tile_time){ (float)(of[FEW] / chunks),
                                         (float)(of[MANY] / chunks / tiles_of_point(&device->facts, MANY)) };
        } else { /* a dispatch of many that takes less than one of few is one of no time for each float */
            out[i] =
                (vulkan_tile_time){ (float)of[FEW], (float)fmax(1e-9, (of[MANY] - of[FEW]) / (PARTS * SUMS_MANY)) };
        }
        log_time(trial, i, &out[i]);
        if (!vulkan_is_tile_time(&out[i]))
            status = inlay_fail(diag, INLAY_UNSUPPORTED, "a tile took %.0f ns, many %.0f", of[FEW], of[MANY]);
    }
done:
    release(trial);
    return status;
}

/* An injected fault is meant for a region, not for a measurement. */
static bool may_measure(const vulkan_state *state, const gpu_device *device)
{
    return state->cache_dir[0] != '\0' && device->stamp_bits > 0 &&
           (device->fault == GPU_FAULT_NONE || device->fault == GPU_FAULT_AS_GPU) &&
           (state->measuring == VULKAN_MEASURE ||
            (state->measuring == VULKAN_MEASURE_GPU && device->facts.type != VK_PHYSICAL_DEVICE_TYPE_CPU));
}

/* Loads the times of a kind, or measures and keeps them. */
static void find_times(vulkan_state *state, gpu_device *device, vulkan_tile_kind kind, vulkan_tile_times *out)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    char name[64], text[sizeof diag.text + 128];
    const uint64_t start = clock_ns();
    inlay_status status = INLAY_OK;

    gpu_cache_file_name(device, vulkan_tile_kind_name(kind), name);
    out->known = vulkan_load_tile_times(state->cache_dir, device, kind, out->times);
    if (out->known)
        return;
    if (gpu_cache_has(state->cache_dir, name)) {
        (void)snprintf(text, sizeof text,
                       "vulkan: %s is damaged, or of another driver or version; the tiles are measured again", name);
        state->host->log(state->host->ctx, INLAY_LOG_INFO, text);
    }
    status = measure(state, device, kind, out->times, &diag);
    out->known = status == INLAY_OK;
    if (out->known) {
        vulkan_save_tile_times(state->cache_dir, device, kind, out->times);
        (void)snprintf(text, sizeof text, "vulkan: %s measured in %.0f ms", vulkan_tile_kind_name(kind),
                       (double)(clock_ns() - start) / 1e6);
    } else {
        (void)snprintf(text, sizeof text, "vulkan: %s could not be measured, and are estimated: %s",
                       vulkan_tile_kind_name(kind), diag.text);
    }
    state->host->log(state->host->ctx, INLAY_LOG_INFO, text);
}

const vulkan_tile_time *vulkan_tile_times_of(const vulkan_build *build, vulkan_tile_kind kind)
{
    vulkan_state *state = build->compiled->state;
    vulkan_tile_times *times = &state->tiles[kind];

    if (state->gpu == NULL || !may_measure(state, build->device)) /* the self-test measures nothing */
        return NULL;
    (void)pthread_mutex_lock(&state->lock);
    if (!times->tried)
        find_times(state, build->device, kind, times);
    times->tried = true;
    (void)pthread_mutex_unlock(&state->lock);
    return times->known ? times->times : NULL;
}
