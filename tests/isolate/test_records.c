/* What the host keeps of the graphs that an isolated provider has assessed: nothing of single nodes, which constant
 * folding runs, and of the graphs of a session only those that the session still uses. */
#include "graph_script.h"
#include "plugin/guard.h"
#include "remote/proxy.h"
#include "session/session.h"

enum { FOLDED = 20, UPDATES = 100, ELEMENTS = 6 };

static struct rig open_script(const char *script)
{
    static const char *const options[] = { "providers",   "fragile,reference", "isolate", "fragile",
                                           "plugin_dirs", FRAGILE_DIR,         "probe",   "never",
                                           NULL };

    return script_open(options, 17, script);
}

static isolate_proxy *proxy_of(const struct rig *rig)
{
    const struct guard *guard = rig->session->providers[0].state;

    assert_string_equal(rig->session->providers[0].name, "fragile");
    return guard->state;
}

struct kept {
    uint32_t records, graphs;
    uint64_t free_bytes; /* of the shared arguments */
};

static struct kept count(const struct rig *rig)
{
    const isolate_proxy *proxy = proxy_of(rig);
    struct kept kept = { 0 };

    for (const proxy_record *record = proxy->records; record != NULL; record = record->next)
        kept.records++;
    for (uint32_t i = 0; i < PROXY_GRAPH_LISTS; i++)
        for (const isolate_graph *graph = proxy->graphs[i]; graph != NULL; graph = graph->next)
            kept.graphs++;
    for (uint32_t i = 0; i < proxy->process.arguments.free_count; i++)
        kept.free_bytes += proxy->process.arguments.free[i].bytes;
    return kept;
}

static void folded_nodes_are_forgotten(void **state)
{
    char script[FOLDED * 64 + 100] = "x : 6\ns0 = Relu(x)\n";
    struct rig rig;
    struct kept kept;

    (void)state;
    for (int i = 0; i < FOLDED; i++)
        (void)snprintf(script + strlen(script), sizeof script - strlen(script),
                       "c%d = [6]\nr%d = Relu(c%d)\ns%d = Add(s%d, r%d)\n", i, i, i, i + 1, i, i);
    (void)snprintf(script + strlen(script), sizeof script - strlen(script), "-> s%d : 6", FOLDED);
    rig = open_script(script);
    script_feed(&rig, 1);
    rig_run(&rig);
    assert_true(proxy_of(&rig)->next_cookie > (uint64_t)FOLDED << 32); /* the provider was asked about each of them */
    kept = count(&rig);
    assert_int_equal(kept.records, 1);
    assert_int_equal(kept.graphs, 1);
    rig_close(&rig);
}

static void earlier_weights_are_forgotten(void **state)
{
    struct rig rig = open_script("x : 6\n"
                                 "w = [6]\n"
                                 "a = Relu(x)\n"
                                 "y = Mul(a, w)\n"
                                 "-> y : 6");
    const char *name = "w";
    struct kept first = { 0 }, now = { 0 };

    (void)state;
    for (int i = 0; i < UPDATES; i++) {
        const int64_t dim = ELEMENTS;
        inlay_value *value = NULL;
        inlay_diag diag = INLAY_DIAG_INIT;

        assert_int_equal(inlay_value_create(INLAY_FLOAT, 1, &dim, &value, &diag), INLAY_OK);
        for (int k = 0; k < ELEMENTS; k++)
            ((float *)inlay_value_data(value))[k] = (float)(i + k);
        if (inlay_session_update(rig.session, 1, &name, &value, &diag) != INLAY_OK)
            fail_msg("%s", diag.text);
        inlay_value_unref(value);
        rig_floats(&rig, 0, "6", (float[ELEMENTS]){ 1, 1, 1, 1, 1, -1 });
        rig_run(&rig);
        rig_expect_floats(&rig, 0, "6",
                          (float[ELEMENTS]){ (float)i, (float)i + 1, (float)i + 2, (float)i + 3, (float)i + 4, 0 });
        now = count(&rig);
        first = i == 1 ? now : first;
    }
    assert_true(first.records > 0);
    assert_int_equal(now.records, first.records);
    assert_int_equal(now.graphs, first.graphs);
    assert_int_equal(now.free_bytes, first.free_bytes);
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(folded_nodes_are_forgotten),
                                        cmocka_unit_test(earlier_weights_are_forgotten) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
