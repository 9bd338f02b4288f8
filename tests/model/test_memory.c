/* Loading, inlining and saving with every allocation failing in turn: a status, no crash, no leak. */
#include "cmocka_all.h"
#include "failing_alloc.h"
#include "model/model.h"
#include "model_writer.h"
#include <stdlib.h>
#include <unistd.h>

/* A model with a bit of everything: a body with captures, functions, strings, external names, sparse data, unknown
 * fields, nodes in the wrong order. */
static void write_model(struct wire *w)
{
    wire_mark g, n, t, f;
    mw_body b;

    mw_opset(w, 8, "my", 1);
    mw_entry(w, 14, "key", "value");
    g = mw_begin(w, 10, 17);
    mw_value(w, MW_INPUT, "x", 1, "N,?");
    mw_value(w, MW_INPUT, "c", 9, "");
    mw_value(w, MW_INPUT, "w", 1, "2");
    mw_ones(w, "w", 2);
    mw_ones(w, "k", 300);
    t = wire_begin(w, MW_INITIALIZER);
    mw_tensor_head(w, "s", INLAY_STRING, 1, (int64_t[]){ 2 });
    wire_text(w, 6, "one");
    wire_text(w, 6, "two");
    wire_end(w, t);
    mw_node(w, "Relu", "p", "y");
    n = mw_node_begin(w, "If", "c", "p");
    b = mw_body_begin(w, "then_branch", "inner");
    t = mw_node_begin(w, "F", "x", "o");
    wire_text(w, 7, "my");
    wire_end(w, t);
    mw_value(w, MW_OUTPUT, "o", 1, NULL);
    mw_body_end(w, b);
    wire_end(w, n);
    n = mw_node_begin(w, "F", "x", "z");
    wire_text(w, 7, "my");
    mw_entry(w, 9, "a", "b");
    wire_end(w, n);
    mw_value(w, MW_OUTPUT, "y", 1, "N,M");
    wire_end(w, g);
    f = wire_begin(w, 25);
    wire_text(w, 1, "F");
    wire_text(w, 4, "a");
    wire_text(w, 5, "r");
    mw_opset(w, 9, "", 17);
    wire_text(w, 10, "my");
    t = wire_begin(w, 7);
    wire_text(w, 1, "a");
    wire_text(w, 2, "q");
    wire_text(w, 4, "Softmax");
    n = wire_begin(w, 5);
    wire_text(w, 1, "axis");
    wire_int(w, 20, 2);
    wire_text(w, 21, "ax");
    wire_end(w, n);
    wire_end(w, t);
    t = wire_begin(w, 7);
    wire_text(w, 1, "q");
    wire_text(w, 2, "r");
    wire_text(w, 4, "Relu");
    wire_end(w, t);
    n = wire_begin(w, 11);
    wire_text(w, 1, "ax");
    wire_int(w, 3, 1);
    wire_int(w, 20, 2);
    wire_end(w, n);
    wire_end(w, f);
}

static inlay_status all_of_it(const char *path, const char *copy, inlay_diag *diag)
{
    model_save_options options = { .external_file = "inlay-memory.data" };
    graph_model *model = NULL;
    struct arena a = { 0 };
    inlay_graph snapshot;
    inlay_status status = INLAY_OK;

    INLAY_TRY(model_load_path(path, NULL, &model, diag));
    INLAY_TRY(model_save(model, copy, &options, diag));
    INLAY_TRY(graph_inline_functions(model, diag));
    INLAY_TRY(graph_freeze_defaults(model->main));
    INLAY_TRY(graph_finish(model->main, diag));
    INLAY_TRY(graph_snapshot(model->main, &a, &snapshot, diag));
done:
    arena_deinit(&a);
    graph_model_destroy(model);
    return status;
}

static void every_allocation_fails_once(void **state)
{
    char path[] = "/tmp/inlay-memory-XXXXXX", copy[] = "/tmp/inlay-memory-copy";
    int fd = mkstemp(path);
    struct wire w = { 0 };
    uint64_t n = 0;

    (void)state;
    assert_true(fd >= 0);
    write_model(&w);
    assert_true(wire_write(&w, fd));
    for (;; n++) {
        inlay_diag diag = INLAY_DIAG_INIT;
        inlay_status status;

        failing_alloc_arm(n);
        status = all_of_it(path, copy, &diag);
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
    wire_deinit(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(every_allocation_fails_once) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
