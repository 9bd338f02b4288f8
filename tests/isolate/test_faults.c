/* Each allocation of the host for an isolated provider fails once: opening it, and every call of a run. Nothing crashes
 * or leaks, and the call succeeds afterwards. */
#include "cmocka_all.h"
#include "failing_alloc.h"
#include "plugin/isolate.h"
#include "remote/proxy.h"
#include "plugin/plugin.h"
#include "plugin/probe.h"
#include "threads/run.h"
#include <fcntl.h>
#include <unistd.h>

enum { ELEMENTS = 6, WEIGHTS = 200 };

static const inlay_plugin *plugin;
static void *state_of;

static inlay_status open_provider(inlay_diag *diag)
{
    const inlay_create_args args = { .struct_size = sizeof args, .max_threads = 1 };
    const int fd = open(FRAGILE_DIR "/fragile.so", O_RDONLY | O_CLOEXEC);
    char helper[PATH_MAX], host[128];
    inlay_status status;

    assert_int_equal(probe_find(helper, host, diag), INLAY_OK);
    status = isolate_open(helper, FRAGILE_DIR "/fragile.so", fd, &plugin, diag);
    (void)close(fd);
    if (status != INLAY_OK)
        return status;
    status = plugin->providers[0].create(plugin->providers[0].ctx, host_table(), &args, &state_of, diag);
    if (status != INLAY_OK)
        plugin->shutdown(plugin->ctx);
    return status;
}

static void close_provider(void)
{
    plugin->providers[0].destroy(state_of);
    plugin->shutdown(plugin->ctx);
}

static void opening(void **state)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    bool failed = true;

    (void)state;
    for (uint64_t n = 0; failed; n++) {
        inlay_status status;

        failing_alloc_arm(n);
        status = open_provider(&diag);
        failed = failing_alloc_disarm() != 0;
        if (status == INLAY_OK)
            close_provider();
        else
            assert_int_equal(status, INLAY_OUT_OF_MEMORY);
        assert_true(failed || status == INLAY_OK);
    }
}

static const float weights[WEIGHTS];
static const inlay_dim dim = { .value = ELEMENTS }, weight_dim = { .value = WEIGHTS };
static const inlay_value_info values[] = {
    { .name = { "x", 1 },
      .kind = INLAY_VALUE_TENSOR,
      .flags = INLAY_VALUE_GRAPH_INPUT,
      .dtype = INLAY_FLOAT,
      .rank = 1,
      .dims = &dim,
      .producer = INLAY_NONE },
    { .name = { "y", 1 },
      .kind = INLAY_VALUE_TENSOR,
      .flags = INLAY_VALUE_GRAPH_OUTPUT,
      .dtype = INLAY_FLOAT,
      .rank = 1,
      .dims = &dim },
    { .name = { "w", 1 },
      .kind = INLAY_VALUE_TENSOR,
      .flags = INLAY_VALUE_CONSTANT,
      .dtype = INLAY_FLOAT,
      .rank = 1,
      .dims = &weight_dim,
      .data = weights,
      .data_bytes = sizeof weights,
      .content_hash = 7,
      .producer = INLAY_NONE },
};
static const uint32_t x = 0, y = 1, node_index = 0;
static const inlay_node_info node = { .name = { "n", 1 },
                                      .domain = { "ai.onnx", 7 },
                                      .op_type = { "Relu", 4 },
                                      .since_version = 14,
                                      .inputs = &x,
                                      .outputs = &y,
                                      .input_count = 1,
                                      .output_count = 1,
                                      .attr_stride = sizeof(inlay_attr_info) };
static const inlay_symbol_info symbol = { .name = { "", 0 } };
static const inlay_graph graph = { .struct_size = sizeof graph,
                                   .name = { "g", 1 },
                                   .content_hash = 3,
                                   .nodes = &node,
                                   .values = values,
                                   .symbols = &symbol,
                                   .inputs = &x,
                                   .outputs = &y,
                                   .node_count = 1,
                                   .node_stride = sizeof node,
                                   .value_count = 3,
                                   .value_stride = sizeof *values,
                                   .symbol_count = 1,
                                   .symbol_stride = sizeof symbol,
                                   .input_count = 1,
                                   .output_count = 1 };

static uint64_t cookie;

static inlay_status take_offer(void *ctx, const inlay_offer *offer)
{
    (void)ctx;
    cookie = offer->cookie;
    return INLAY_OK;
}

static inlay_status take_refusal(void *ctx, const inlay_refusal *refusal)
{
    (void)ctx;
    fail_msg("%s", refusal->text);
    return INLAY_OK;
}

static inlay_status execute(const inlay_provider *table, inlay_compiled *compiled, inlay_instance *instance,
                            inlay_diag *diag)
{
    const float in[ELEMENTS] = { 1, -1, 2, -2, 3, -3 }, want[ELEMENTS] = { 1, 0, 2, 0, 3, 0 };
    float out[ELEMENTS] = { 0 };
    int64_t dims[] = { ELEMENTS };
    const uint32_t cancel = 0;
    struct inlay_run run = { .cancel = &cancel, .max_threads = 1 };
    inlay_tensor_arg input = {
        .buffer = { .handle = (uintptr_t)in, .bytes = sizeof in }, .dims = dims, .rank = 1, .dtype = INLAY_FLOAT
    };
    inlay_tensor_arg output = {
        .buffer = { .handle = (uintptr_t)out, .bytes = sizeof out }, .dims = dims, .rank = 1, .dtype = INLAY_FLOAT
    };
    const inlay_exec_args args = { .struct_size = sizeof args,
                                   .run = &run,
                                   .inputs = &input,
                                   .outputs = &output,
                                   .input_count = 1,
                                   .output_count = 1,
                                   .arg_stride = sizeof input,
                                   .cancel = &cancel,
                                   .diag = diag };
    const inlay_status status = table->execute(state_of, compiled, instance, &args);

    if (status == INLAY_OK)
        assert_memory_equal(out, want, sizeof want);
    return status;
}

static inlay_status specialize_and_execute(const inlay_provider *table, inlay_compiled *compiled,
                                           const inlay_value_state *states, inlay_diag *diag)
{
    inlay_output_plan plan = { .alias = INLAY_NONE };
    inlay_specialize_request request = { .struct_size = sizeof request,
                                         .values = states,
                                         .value_count = 3,
                                         .value_stride = sizeof *states,
                                         .max_threads = 1,
                                         .workspace_alignment = 64,
                                         .outputs = &plan,
                                         .output_count = 1,
                                         .output_stride = sizeof plan };
    inlay_instance *instance = NULL;
    inlay_status status = table->specialize(state_of, compiled, &request, &instance, diag);

    if (status != INLAY_OK)
        return status;
    status = execute(table, compiled, instance, diag);
    table->release_instance(state_of, compiled, instance);
    return status;
}

/* Makes all calls of a run, until one fails. */
static inlay_status make_calls(inlay_diag *diag)
{
    const inlay_provider *table = &plugin->providers[0];
    const uint8_t candidates[] = { 1 };
    const inlay_assess_sink sink = { .struct_size = sizeof sink, .offer = take_offer, .refuse = take_refusal };
    const inlay_assess_request assess = {
        .struct_size = sizeof assess, .graph = &graph, .candidates = candidates, .sink = &sink
    };
    const int64_t dims[] = { ELEMENTS }, weight_dims[] = { WEIGHTS };
    const inlay_value_state states[] = {
        { .dims = dims, .rank = 1, .dtype = INLAY_FLOAT },
        { .dims = dims, .rank = 1, .dtype = INLAY_FLOAT },
        { .dims = weight_dims, .data = weights, .data_bytes = sizeof weights, .rank = 1, .dtype = INLAY_FLOAT },
    };
    const inlay_placement placements[2] = { { .value = 0 }, { .value = 1 } };
    uint8_t constants[3] = { 0 };
    inlay_compile_request compile = { .struct_size = sizeof compile,
                                      .graph = &graph,
                                      .nodes = &node_index,
                                      .cookies = &cookie,
                                      .inputs = &x,
                                      .outputs = &y,
                                      .node_count = 1,
                                      .offer_count = 1,
                                      .input_count = 1,
                                      .output_count = 1,
                                      .placements = placements,
                                      .placement_stride = sizeof *placements,
                                      .constants = constants,
                                      .profile_stride = sizeof *states,
                                      .max_threads = 1 };
    inlay_cost cost = { .struct_size = sizeof cost };
    inlay_compiled *compiled = NULL;
    inlay_status status = table->assess(state_of, &assess, diag);

    if (status == INLAY_OK) {
        const inlay_offer offer = {
            .struct_size = sizeof offer, .cookie = cookie, .nodes = &node_index, .node_count = 1
        };
        const inlay_cost_request price = { .struct_size = sizeof price,
                                           .graph = &graph,
                                           .offer = &offer,
                                           .values = states,
                                           .value_count = 3,
                                           .value_stride = sizeof *states,
                                           .max_threads = 1 };

        status = table->cost(state_of, &price, &cost, diag);
    }
    if (status == INLAY_OK)
        status = table->compile(state_of, &compile, &compiled, diag);
    if (status != INLAY_OK)
        return status;
    status = specialize_and_execute(table, compiled, states, diag);
    table->release_compiled(state_of, compiled);
    return status;
}

static void calls(void **state)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    bool failed = true;

    (void)state;
    assert_int_equal(open_provider(&diag), INLAY_OK);
    for (uint64_t n = 0; failed; n++) {
        inlay_status status;

        failing_alloc_arm(n);
        status = make_calls(&diag);
        failed = failing_alloc_disarm() != 0;
        if (status != INLAY_OK)
            assert_int_equal(status, INLAY_OUT_OF_MEMORY);
        assert_true(failed || status == INLAY_OK);
    }
    assert_null(((const isolate_proxy *)state_of)->records->next); /* the same graph has one record */
    close_provider();
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(opening), cmocka_unit_test(calls) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
