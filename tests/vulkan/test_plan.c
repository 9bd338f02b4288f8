/* Checks buffer places and barriers of random regions byte by byte. No dispatch conflicts with another one since
 * the last barrier, no byte is overwritten that is read later, and every barrier is necessary. Validation layers check
 * copies, but not accesses by address in shaders. */
#include "vulkan/region.h"
#include "cmocka_all.h"
#include "random.h"
#include <stdlib.h>

enum { MOST = 40, BUFFERS = MOST + 2, SPACE = MOST * 2048 };

struct region {
    inlay_compiled compiled;
    inlay_instance in;
    gpu_device device;
    inlay_diag diag;
    vulkan_dispatch dispatches[MOST];
    vulkan_buffer buffers[BUFFERS];
};

static uint64_t seed = 1;

static void touch(struct region *region, uint32_t i, uint32_t buffer, uint64_t from, uint64_t bytes, bool write)
{
    vulkan_dispatch *dispatch = &region->dispatches[i];
    vulkan_buffer *b = &region->buffers[buffer];

    dispatch->operands[dispatch->operand_count++] =
        (vulkan_operand){ .buffer = buffer, .offset = from, .bytes = bytes, .write = write };
    b->first = b->first == INLAY_NONE ? i : b->first;
    b->last = i;
}

/* Each dispatch writes a buffer, whole or in part, and reads some earlier ones. Buffers 0 and 1 are an input and an
 * output of the region. */
static void make_region(struct region *region, uint32_t count)
{
    *region = (struct region){ .in = { .dispatch_count = count, .buffer_count = count + 2 } };
    region->in.dispatches = region->dispatches;
    region->in.buffers = region->buffers;
    for (uint32_t k = 0; k < count + 2; k++)
        region->buffers[k] = (vulkan_buffer){ .kind = k == 0   ? VULKAN_INPUT
                                                      : k == 1 ? VULKAN_OUTPUT
                                                               : VULKAN_WORK,
                                              .bytes = 4 + 4 * random_below(&seed, 500),
                                              .first = INLAY_NONE };
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t made = random_below(&seed, 8) == 0 ? 1 : i + 2, reads = random_below(&seed, 4);

        region->dispatches[i].ns = (double)random_below(&seed, 100000000);
        touch(region, i, made, 0, region->buffers[made].bytes, true);
        for (uint32_t k = 0; k < reads && i > 0; k++) {
            const uint32_t from = random_below(&seed, 5) == 0 ? 0 : 2 + random_below(&seed, i);
            const uint64_t bytes = region->buffers[from].bytes, first = random_below(&seed, bytes);

            if (from == 0 || region->buffers[from].first != INLAY_NONE)
                touch(region, i, from, first, bytes - first, random_below(&seed, 12) == 0 && from != 0);
        }
    }
}

static uint64_t place_of(const struct region *region, const vulkan_operand *operand)
{
    const vulkan_buffer *buffer = &region->buffers[operand->buffer];

    return (buffer->kind == VULKAN_WORK     ? 4096 + buffer->offset
            : buffer->kind == VULKAN_OUTPUT ? 2048
                                            : 0) +
           operand->offset;
}

/* For each byte: the last dispatch (from 1 on) that wrote and that accessed it, and its buffer. */
static uint32_t written[SPACE + 4096], touched[SPACE + 4096], maker[SPACE + 4096];

/* May dispatch i run while all dispatches from `since` on may still be running? */
static bool may_run(const struct region *region, uint32_t i, uint32_t since)
{
    for (uint32_t x = 0; x < region->dispatches[i].operand_count; x++) {
        const vulkan_operand *operand = &region->dispatches[i].operands[x];

        for (uint64_t at = place_of(region, operand), end = at + operand->bytes; at < end; at++) {
            const uint32_t before = operand->write ? touched[at] : written[at];
            const bool is_inlay_attention =
                operand->write || region->buffers[operand->buffer].kind != VULKAN_WORK || maker[at] == operand->buffer;

            if ((before != 0 && before >= since) || !is_inlay_attention)
                return false;
        }
    }
    return true;
}

static void run(const struct region *region, uint32_t i)
{
    for (uint32_t x = 0; x < region->dispatches[i].operand_count; x++) {
        const vulkan_operand *operand = &region->dispatches[i].operands[x];

        for (uint64_t at = place_of(region, operand), end = at + operand->bytes; at < end; at++) {
            touched[at] = i + 1;
            written[at] = operand->write ? i + 1 : written[at];
            maker[at] = operand->write ? operand->buffer : maker[at];
        }
    }
}

/* Do the barriers guarantee the order of all accesses? */
static bool is_ordered(const struct region *region)
{
    uint32_t since = 1;
    bool ok = true;

    memset(written, 0, sizeof written);
    memset(touched, 0, sizeof touched);
    memset(maker, 0, sizeof maker);
    for (uint32_t i = 0; i < region->in.dispatch_count && ok; i++) {
        since = region->dispatches[i].barrier ? i + 1 : since;
        ok = may_run(region, i, since);
        run(region, i);
    }
    return ok;
}

static void plan(struct region *region)
{
    vulkan_build build = {
        .compiled = &region->compiled, .instance = &region->in, .device = &region->device, .diag = &region->diag
    };

    assert_int_equal(vulkan_plan(&build), INLAY_OK);
    assert_true(region->in.workspace_bytes <= SPACE);
}

static void regions_are_ordered(void **state)
{
    static struct region region;
    uint32_t barriers = 0, all = 0;

    (void)state;
    for (uint32_t n = 0; n < 300; n++) {
        make_region(&region, 1 + random_below(&seed, MOST));
        plan(&region);
        assert_true(is_ordered(&region));
        for (uint32_t i = 0; i < region.in.dispatch_count; i++) {
            all++;
            if (!region.dispatches[i].barrier)
                continue;
            barriers++;
            region.dispatches[i].barrier = false;
            assert_false(is_ordered(&region)); /* the missing barrier is detected */
            region.dispatches[i].barrier = true;
        }
        free(region.in.segment_ends);
    }
    assert_in_range(barriers, all / 8, all * 7 / 8); /* some but not all */
}

/* The expected time of a submission is at most 0.2 s, unless it is a single dispatch. With a fault injected, every
 * dispatch is one submission. */
static void submissions_are_short(void **state)
{
    static struct region region;

    (void)state;
    for (uint32_t n = 0; n < 100; n++) {
        uint32_t at = 0;

        make_region(&region, 1 + random_below(&seed, MOST));
        region.device.fault = n % 2 == 0 ? GPU_FAULT_NONE : GPU_FAULT_LOST;
        plan(&region);
        for (uint32_t segment_end = 0; segment_end < region.in.segment_count; segment_end++) {
            const uint32_t first = at;
            double ns = 0;

            for (; at < region.in.segment_ends[segment_end]; at++)
                ns += region.dispatches[at].ns;
            assert_true(at > first);
            assert_true(at == first + 1 || (n % 2 == 0 && ns <= 2e8));
        }
        assert_int_equal(at, region.in.dispatch_count);
        free(region.in.segment_ends);
    }
}

/* The FLOPs of Gemm: A is [2, 64], or with transA [64, 2]. */
static void gemm_has_flops(void **state)
{
    static const uint32_t inputs[] = { 0, 1 }, outputs[] = { 2 }, offered[] = { 0 };
    vulkan_state provider = { .flops_per_ns = 1, .bytes_per_ns = 1 };

    (void)state;
    for (int64_t transposed = 0; transposed < 2; transposed++) {
        const int64_t a[2] = { transposed ? 64 : 2, transposed ? 2 : 64 }, b[2] = { 64, 3 }, y[2] = { 2, 3 };
        const inlay_value_state values[] = { { .dims = a, .rank = 2, .dtype = INLAY_FLOAT },
                                             { .dims = b, .rank = 2, .dtype = INLAY_FLOAT },
                                             { .dims = y, .rank = 2, .dtype = INLAY_FLOAT } };
        const inlay_attr_info attribute = { .name = { "transA", 6 }, .kind = INLAY_ATTR_INT, .i = transposed };
        const inlay_node_info node = { .op_type = { "Gemm", 4 },
                                       .inputs = inputs,
                                       .outputs = outputs,
                                       .input_count = 2,
                                       .output_count = 1,
                                       .attrs = &attribute,
                                       .attr_count = 1,
                                       .attr_stride = sizeof attribute };
        const inlay_graph graph = { .nodes = &node, .node_count = 1, .node_stride = sizeof node };
        const inlay_offer offer = { .struct_size = sizeof offer, .nodes = offered, .node_count = 1 };
        const inlay_cost_request request = { .struct_size = sizeof request,
                                             .graph = &graph,
                                             .offer = &offer,
                                             .values = values,
                                             .value_count = 3,
                                             .value_stride = sizeof *values };
        inlay_cost cost = { .struct_size = sizeof cost };
        inlay_diag diag = INLAY_DIAG_INIT;

        assert_int_equal(vulkan_cost(&provider, &request, &cost, &diag), INLAY_OK);
        assert_true(cost.flops == 2.0 * 2 * 64 * 3);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(regions_are_ordered), cmocka_unit_test(submissions_are_short),
                                        cmocka_unit_test(gemm_has_flops) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
