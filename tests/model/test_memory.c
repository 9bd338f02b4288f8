/* Loading, inlining and saving while each allocation fails once: the result is a status, without crashes or leaks. */
#include "cmocka_all.h"
#include "failing_alloc.h"
#include "model/model.h"
#include "model_writer.h"
#include <stdlib.h>
#include <unistd.h>

/* Writes a model with many features: a body with captures, calls of a function with an attribute, strings, a default
 * value of an input, metadata of the model and of a node, nodes in the wrong order. */
static void write_model(struct wire *wire)
{
    wire_mark mark, n, t;
    mw_body body;

    mw_opset(wire, 8, "my", 1);
    mw_entry(wire, 14, "key", "value");
    mark = mw_begin(wire, 10, 17);
    mw_value(wire, MW_INPUT, "x", 1, "N,?");
    mw_value(wire, MW_INPUT, "c", 9, "");
    mw_value(wire, MW_INPUT, "w", 1, "2");
    mw_ones(wire, "w", 2);
    mw_ones(wire, "k", 300);
    t = wire_begin(wire, MW_INITIALIZER);
    mw_tensor_head(wire, "s", INLAY_STRING, 1, (int64_t[]){ 2 });
    wire_text(wire, 6, "one");
    wire_text(wire, 6, "two");
    wire_end(wire, t);
    mw_node(wire, "Relu", "p", "y");
    n = mw_node_begin(wire, "If", "c", "p");
    body = mw_body_begin(wire, "then_branch", "inner");
    t = mw_node_begin(wire, "F", "x", "o");
    wire_text(wire, 7, "my");
    wire_end(wire, t);
    mw_value(wire, MW_OUTPUT, "o", 1, NULL);
    mw_body_end(wire, body);
    wire_end(wire, n);
    n = mw_node_begin(wire, "F", "x", "z");
    wire_text(wire, 7, "my");
    mw_entry(wire, 9, "a", "b");
    wire_end(wire, n);
    mw_value(wire, MW_OUTPUT, "y", 1, "N,M");
    wire_end(wire, mark);
    mark = mw_function_begin(wire, "F", "a", "r", "");
    n = mw_function_node_begin(wire, "", "Softmax", "a", "q");
    mw_attr_ref(wire, "axis", "ax", 2);
    wire_end(wire, n);
    mw_function_node(wire, "", "Relu", "q", "r");
    mw_function_default(wire, "ax", 1);
    wire_end(wire, mark);
}

static inlay_status load_and_save(const char *path, const char *copy, inlay_diag *diag)
{
    model_save_options options = { .external_file = "inlay-memory.data" };
    graph_model *model = NULL;
    struct arena arena = { 0 };
    inlay_graph snapshot;
    inlay_status status = INLAY_OK;

    INLAY_TRY(model_load_path(path, NULL, &model, diag));
    INLAY_TRY(model_save(model, copy, &options, diag));
    INLAY_TRY(graph_inline_functions(model, diag));
    INLAY_TRY(graph_freeze_defaults(model->main));
    INLAY_TRY(graph_finish(model->main, diag));
    INLAY_TRY(graph_snapshot(model->main, &arena, &snapshot, diag));
done:
    arena_deinit(&arena);
    graph_model_destroy(model);
    return status;
}

static void every_allocation_fails_once(void **state)
{
    char path[] = "/tmp/inlay-memory-XXXXXX", copy[] = "/tmp/inlay-memory-copy";
    int fd = mkstemp(path);
    struct wire wire = { 0 };
    uint64_t n = 0;

    (void)state;
    assert_true(fd >= 0);
    write_model(&wire);
    assert_true(wire_write(&wire, fd));
    for (;; n++) {
        inlay_diag diag = INLAY_DIAG_INIT;
        inlay_status status;

        failing_alloc_arm(n);
        status = load_and_save(path, copy, &diag);
        if (!failing_alloc_disarm()) {
            if (status != INLAY_OK)
                fail_msg("%s", diag.text);
            break;
        }
        if (status != INLAY_OUT_OF_MEMORY)
            fail_msg("allocation %llu failed, but the status is %d: %s", (unsigned long long)n, status, diag.text);
    }
    assert_true(n > 100);
    (void)unlink(path);
    (void)unlink(copy);
    (void)unlink("/tmp/inlay-memory.data");
    (void)close(fd);
    wire_deinit(&wire);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(every_allocation_fails_once) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
