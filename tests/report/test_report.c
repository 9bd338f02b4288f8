/* Pages and drawings: complete, with the given JSON, and safe against hostile names. */
#include "graph_script.h"
#include "base/memory.h"
#include "model/model.h"
#include "report/draw.h"
#include "report/layout.h"
#include "report/page.h"
#include <jansson.h>
#include <unistd.h>

static graph_model *load_script(struct wire *wire, const char *script)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    graph_model *model = NULL;

    *wire = (struct wire){ 0 };
    script_model(wire, script, 17);
    if (model_load_bytes(wire->bytes, wire->count, NULL, &model, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    return model;
}

/* ------------------------------------------------------------------ drawings */

/* The row number increases along every edge, and boxes of a row do not overlap. */
static void test_layout(void **state)
{
    struct wire wire;
    graph_model *model =
        load_script(&wire, "x : 2,8\n a = Relu(x)\n b = Tanh(x)\n c = Neg(x)\n d = Add(a, b)\n e = Add(d, c)\n"
                           "-> e, b");
    struct arena arena = { 0 };
    struct layout layout;

    (void)state;
    assert_true(layout_graph(model->main, &arena, &layout));
    assert_int_equal(layout.box_count, 1 + 5 + 2);
    assert_int_equal(layout.edge_count, 3 + 2 + 2 + 2);
    for (uint32_t i = 0; i < layout.edge_count; i++)
        assert_true(layout.boxes[layout.edges[i].from].row < layout.boxes[layout.edges[i].to].row);
    for (uint32_t i = 0; i < layout.box_count; i++)
        for (uint32_t k = i + 1; k < layout.box_count; k++)
            if (layout.boxes[i].row == layout.boxes[k].row)
                assert_true(layout.boxes[i].x - layout.boxes[k].x > 0.999 ||
                            layout.boxes[k].x - layout.boxes[i].x > 0.999);
    arena_deinit(&arena);
    graph_model_destroy(model);
    wire_deinit(&wire);
}

static uint32_t count_text(const char *in, const char *text)
{
    uint32_t count = 0;

    for (; (in = strstr(in, text)) != NULL; in += strlen(text))
        count++;
    return count;
}

static void test_drawings(void **state)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    struct wire wire;
    graph_model *model =
        load_script(&wire, "x : 2,8\n zero = [] 0.0\n s = ReduceSum(x) keepdims=0\n t = Greater(s, zero)\n"
                           "y = If(t) then:Neg(x) else:Relu(x)\n -> y");
    char *text = NULL;
    size_t bytes;
    FILE *to = open_memstream(&text, &bytes);

    (void)state;
    assert_int_equal(draw_dot(to, model, NULL, &diag), INLAY_OK);
    assert_int_equal(fclose(to), 0);
    assert_int_equal(count_text(text, "subgraph"), 3);
    assert_non_null(strstr(text, "\"Greater\""));
    free(text);
    to = open_memstream(&text, &bytes);
    assert_int_equal(draw_html(to, model, model, "a <b> & c", &diag), INLAY_OK);
    assert_int_equal(fclose(to), 0);
    assert_non_null(strstr(text, "a &#60;b&#62; &#38; c"));
    assert_non_null(strstr(text, ">Greater</text>"));
    assert_non_null(strstr(text, "then_branch of"));
    assert_null(strstr(text, "<script"));
    assert_int_equal(count_text(text, "<svg "), 1);
    free(text);
    graph_model_destroy(model);
    wire_deinit(&wire);
}

/* ------------------------------------------------------------------ pages of JSON */

static const char hostile[] = "</script><script>alert(1)</script><img src=x onerror=alert(1)><!--";

/* The page contains the JSON and two scripts; hostile names have no effect; the page loads nothing. */
static void check_page(const char *page, const char *json)
{
    const char *begin = strstr(page, "id=\"facts\">"), *end;
    json_t *inside, *alone = json_loads(json, 0, NULL);

    assert_int_equal(strncmp(page, "<!DOCTYPE html>", 15), 0);
    assert_string_equal(page + strlen(page) - 8, "</html>\n");
    assert_int_equal(count_text(page, "<script"), 2);
    assert_int_equal(count_text(page, "</script"), 2);
    assert_int_equal(count_text(page, "<style>"), 1);
    assert_int_equal(count_text(page, "<!--"), 0);
    assert_int_equal(count_text(page, "<img"), 0);
    assert_int_equal(count_text(page, "https://"), 0);
    assert_non_null(begin);
    begin = strchr(begin, '{');
    end = strstr(begin, "</script");
    inside = json_loadb(begin, (size_t)(end - begin), 0, NULL);
    assert_non_null(inside);
    assert_true(json_equal(inside, alone));
    json_decref(inside);
    json_decref(alone);
}

static char *read_all(const char *path)
{
    FILE *file = fopen(path, "rb");
    char *text = calloc(1, 1 << 20);

    assert_non_null(file);
    assert_non_null(text);
    assert_true(fread(text, 1, (1 << 20) - 1, file) > 0);
    assert_int_equal(fclose(file), 0);
    return text;
}

/* The page of a session, whose JSON the library writes in pieces. */
static void test_page_of_session(void **state)
{
    const inlay_explain_options options = { .struct_size = sizeof options, .format = "json" };
    inlay_diag diag = INLAY_DIAG_INIT;
    struct wire wire = { 0 };
    wire_mark mark = mw_begin(&wire, 8, 17), n;
    char *page = NULL, *json = NULL;
    size_t bytes;
    FILE *to;
    struct rig rig;

    (void)state;
    mw_value(&wire, MW_INPUT, hostile, INLAY_FLOAT, "2,3");
    n = mw_node_begin(&wire, "Relu", hostile, "y");
    wire_text(&wire, 3, hostile);
    wire_end(&wire, n);
    mw_value(&wire, MW_OUTPUT, "y", INLAY_FLOAT, "2,3");
    wire_end(&wire, mark);
    rig = rig_open(&wire, NULL);
    to = open_memstream(&page, &bytes);
    page_script_begin(to, &page_explain);
    assert_int_equal(inlay_session_explain(rig.session, &options, page_script_json, to, &diag), INLAY_OK);
    page_script_end(to, &page_explain);
    assert_int_equal(fclose(to), 0);
    to = open_memstream(&json, &bytes);
    assert_int_equal(inlay_session_explain(rig.session, &options, page_script_json, to, &diag), INLAY_OK);
    assert_int_equal(fclose(to), 0);
    check_page(page, json);
    free(page);
    free(json);
    rig_close(&rig);
}

/* The page of a JSON file by another program, which does not escape '<'. */
static void test_page_of_file(void **state)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    char from[] = "/tmp/report.XXXXXX", path[64], json[512], *page;
    const int fd = mkstemp(from);

    (void)state;
    assert_true(fd >= 0);
    (void)snprintf(path, sizeof path, "%s.html", from);
    (void)snprintf(json, sizeof json, "{\"version\": 1, \"timeline\": [1.5, \"a & b > %s\"]}", hostile);
    assert_int_equal(write(fd, json, strlen(json)), (ssize_t)strlen(json));
    assert_int_equal(page_script_convert(&page_profile, from, path, &diag), INLAY_OK);
    page = read_all(path);
    check_page(page, json);
    free(page);
    assert_int_equal(unlink(path), 0);

    assert_int_equal(page_script_convert(&page_explain, from, path, &diag), INLAY_INVALID_MODEL);
    assert_non_null(strstr(diag.text, "inlay explain --json"));
    assert_int_equal(ftruncate(fd, 20), 0);
    assert_int_equal(page_script_convert(&page_profile, from, path, &diag), INLAY_INVALID_MODEL);
    assert_non_null(strstr(diag.text, from));
    assert_int_not_equal(access(path, F_OK), 0); /* no file remains */
    assert_int_equal(close(fd), 0);
    assert_int_equal(unlink(from), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layout),
        cmocka_unit_test(test_drawings),
        cmocka_unit_test(test_page_of_session),
        cmocka_unit_test(test_page_of_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
