/* Attributes that are lists, in all encodings: packed, as separate elements with tags of one or two bytes, and
 * mixed. */
#include "cmocka_all.h"
#include "model/model.h"
#include "model_writer.h"

enum { COUNT = 700 };
enum { PACKED, TAGGED, LONG_TAGS, MIXED, FORM_COUNT };
enum { FLOATS = 7, INTS = 8, STRINGS = 9 }; /* fields of AttributeProto */

/* Values with all lengths of a varint; negative ones have ten bytes. */
static int64_t int_at(uint32_t i)
{
    const int64_t value = (int64_t)(i * UINT64_C(0x9e3779b97f4a7c15) >> (i * 7 % 64));

    return i % 5 == 0 ? (int64_t)(i % 200) : i % 31 == 0 ? -value : value;
}
static float float_at(uint32_t i)
{
    return (float)i * -0.75f;
}
static const char *text_at(uint32_t i)
{
    static const char *const texts[] = { "LEAF", "LEAF", "", "BRANCH_LEQ", "BRANCH_LEQ", "LEAG" };

    return texts[i % 6];
}

static void put_varint(struct wire *wire, uint64_t value)
{
    for (; value > 0x7f; value >>= 7)
        wire_raw(wire, &(uint8_t){ (uint8_t)(value | 0x80) }, 1);
    wire_raw(wire, &(uint8_t){ (uint8_t)value }, 1);
}

static void put_element(struct wire *wire, uint32_t field, uint32_t i)
{
    if (field == FLOATS) {
        const float value = float_at(i);
        wire_raw(wire, &value, sizeof value);
    } else if (field == INTS) {
        put_varint(wire, (uint64_t)int_at(i));
    } else {
        put_varint(wire, strlen(text_at(i)));
        wire_raw(wire, text_at(i), strlen(text_at(i)));
    }
}

/* Writes element i after its tag, which a file may encode in more bytes than necessary. */
static void put_tagged(struct wire *wire, uint32_t field, uint32_t i, bool longer)
{
    const uint8_t tag = (uint8_t)(field << 3 | (field == FLOATS ? 5u : field == INTS ? 0u : 2u));

    wire_raw(wire, &(uint8_t){ (uint8_t)(tag | (longer ? 0x80 : 0)) }, 1);
    if (longer)
        wire_raw(wire, &(uint8_t){ 0 }, 1);
    put_element(wire, field, i);
}

static void put_list(struct wire *wire, const char *name, uint32_t field, int form)
{
    wire_mark attr = wire_begin(wire, 5), packed;

    wire_text(wire, 1, name);
    wire_int(wire, 20, field - 1); /* FLOATS 6, INTS 7, STRINGS 8 */
    for (uint32_t i = 0; i < COUNT; i++) {
        const int now = form != MIXED ? form : (int)(i / 9 % 3);

        if (now != PACKED || field == STRINGS) {
            put_tagged(wire, field, i, now == LONG_TAGS);
            continue;
        }
        packed = wire_begin(wire, field);
        do
            put_element(wire, field, i++);
        while (i < COUNT && (form != MIXED || i % 9 != 0));
        i--;
        wire_end(wire, packed);
    }
    wire_end(wire, attr);
}

static const inlay_attr_info *attribute(const graph_model *model, const char *name)
{
    const inlay_node_info *node = &model->main->nodes[0]->info;

    for (uint32_t i = 0; i < node->attr_count; i++)
        if (strcmp(node->attrs[i].name.data, name) == 0)
            return &node->attrs[i];
    fail_msg("no attribute %s", name);
    return NULL;
}

static void every_form_of_every_list(void **state)
{
    (void)state;
    for (int form = 0; form < FORM_COUNT; form++) {
        struct wire wire = { 0 };
        wire_mark mark = mw_begin(&wire, 8, 17), node;
        inlay_diag diag = INLAY_DIAG_INIT;
        const inlay_attr_info *a;
        graph_model *model;

        mw_value(&wire, MW_INPUT, "x", INLAY_FLOAT, "1");
        node = mw_node_begin(&wire, "Thing", "x", "y");
        wire_text(&wire, 7, "own.domain");
        put_list(&wire, "floats", FLOATS, form);
        put_list(&wire, "ints", INTS, form);
        put_list(&wire, "strings", STRINGS, form);
        wire_end(&wire, node);
        mw_value(&wire, MW_OUTPUT, "y", INLAY_FLOAT, "1");
        wire_end(&wire, mark);
        mw_opset(&wire, 8, "own.domain", 1);
        if (model_load_bytes(wire.bytes, wire.count, NULL, &model, &diag) != INLAY_OK)
            fail_msg("form %d: %s", form, diag.text);
        a = attribute(model, "floats");
        assert_int_equal(a->count, COUNT);
        for (uint32_t i = 0; i < COUNT; i++)
            assert_true(a->floats[i] == float_at(i));
        a = attribute(model, "ints");
        assert_int_equal(a->count, COUNT);
        for (uint32_t i = 0; i < COUNT; i++)
            assert_int_equal(a->ints[i], int_at(i));
        a = attribute(model, "strings");
        assert_int_equal(a->count, COUNT);
        for (uint32_t i = 0; i < COUNT; i++)
            assert_string_equal(a->strings[i].data, text_at(i));
        graph_model_destroy(model);
        wire_deinit(&wire);
    }
}

/* A list that ends within an element is refused. */
static void cut_lists_are_refused(void **state)
{
    (void)state;
    for (uint32_t field = FLOATS; field <= STRINGS; field++) {
        for (size_t cut = 1; cut < 3; cut++) {
            struct wire wire = { 0 };
            wire_mark mark = mw_begin(&wire, 8, 17), node, attr;
            inlay_diag diag = INLAY_DIAG_INIT;
            graph_model *model;

            node = mw_node_begin(&wire, "Thing", "x", "y");
            attr = wire_begin(&wire, 5);
            wire_text(&wire, 1, "list");
            for (uint32_t i = 0; i < 40; i++)
                put_tagged(&wire, field, field == INTS ? 32 : 3, false);
            wire.count -= cut;
            wire_end(&wire, attr);
            wire_end(&wire, node);
            wire_end(&wire, mark);
            assert_int_equal(model_load_bytes(wire.bytes, wire.count, NULL, &model, &diag), INLAY_INVALID_MODEL);
            assert_non_null(strstr(diag.text, "AttributeProto"));
            wire_deinit(&wire);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_of_every_list),
        cmocka_unit_test(cut_lists_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
