/* signature.c - the parser of signatures: legal signatures, error messages, damaged texts and failing allocations. */
#include "schema.h"
#include "random.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* Allocates separate blocks, so that a sanitizer finds every overrun; fails after `left` blocks. */
struct heap {
    void *blocks[2048];
    uint32_t count;
    uint32_t left;
};

static void *heap_alloc(void *ctx, size_t bytes)
{
    struct heap *heap = ctx;

    if (heap->left == 0 || heap->count == 2048)
        return NULL;
    heap->left--;
    heap->blocks[heap->count] = malloc(bytes);
    return heap->blocks[heap->count++];
}

static void heap_free(struct heap *heap)
{
    while (heap->count > 0)
        free(heap->blocks[--heap->count]);
    heap->left = UINT32_MAX;
}

static struct heap memory = { .left = UINT32_MAX };

static inlay_status parse(const char *text, op_schema *schema, inlay_diag *diag)
{
    *diag = (inlay_diag)INLAY_DIAG_INIT;
    return op_schema_parse(text, heap_alloc, &memory, schema, diag);
}

/* "..." ends the attributes and allows any others. */
static void test_open_attributes(void **state)
{
    op_schema schema;
    inlay_diag diag;

    (void)state;
    assert_int_equal(parse("X:float -> Y:float; ; axis:i=1, ...", &schema, &diag), INLAY_OK);
    assert_int_equal(schema.attr_count, 1);
    assert_true(schema.open_attrs);
    assert_int_equal(parse("X:float -> Y:float; ; ...", &schema, &diag), INLAY_OK);
    assert_true(schema.open_attrs && schema.attr_count == 0);
    assert_int_equal(parse("X:float -> Y:float; ; axis:i=1", &schema, &diag), INLAY_OK);
    assert_false(schema.open_attrs);
    assert_int_equal(parse("X:float -> Y:float; ; ..., axis:i=1", &schema, &diag), INLAY_INVALID_ARGUMENT);
    assert_int_equal(parse("X:float -> Y:float; ; ..", &schema, &diag), INLAY_INVALID_ARGUMENT);
    assert_non_null(strstr(diag.text, "expected '...'"));
    heap_free(&memory);
}

static void test_complete_signature(void **state)
{
    op_schema schema;
    inlay_diag diag;

    (void)state;
    assert_int_equal(parse("X:T, scale:T,mask?:M, rest%0 : V\n -> Y:T, more*2:seq(float) ;T=float|double , M=bool,"
                           "V=@all-@complex-string|optional(seq(@integer))|map(string,int64); axis:i=-1, mode:s='fast',"
                           "pads:is!, alpha:f=-2.5e-3, names:ss=['a', 'b c'], ks:is=[1,-2,3], fs:fs=[0.5], body:g!,t:t",
                           &schema, &diag),
                     INLAY_OK);
    assert_int_equal(schema.input_count, 4);
    assert_int_equal(schema.min_inputs, 3); /* mask may be omitted, but counts */
    assert_true(schema.max_inputs == UINT32_MAX);
    assert_string_equal(schema.inputs[3].name, "rest");
    assert_int_equal(schema.inputs[3].option, OP_VARIADIC_MIXED);
    assert_int_equal(schema.inputs[3].min_arity, 0);
    assert_int_equal(schema.inputs[2].option, OP_OPTIONAL);
    assert_int_equal(schema.outputs[1].option, OP_VARIADIC);
    assert_int_equal(schema.min_outputs, 3);
    assert_int_equal(schema.inputs[0].type_param, schema.outputs[0].type_param);
    assert_int_equal(schema.types[schema.outputs[1].type_param].types.sequence, INLAY_DTYPE_BIT(INLAY_FLOAT));
    assert_int_equal(schema.types[2].types.map, op_map_bit(INLAY_STRING, INLAY_INT64));
    assert_int_equal(schema.types[2].types.tensor & INLAY_DTYPE_BIT(INLAY_STRING), 0);
    assert_int_equal(schema.attr_count, 9);
    assert_int_equal(schema.attrs[0].i, -1);
    assert_string_equal(schema.attrs[1].s, "fast");
    assert_true(schema.attrs[2].required && !schema.attrs[2].has_default);
    assert_true(schema.attrs[3].f == (double)-2.5e-3f);
    assert_string_equal(schema.attrs[4].strings[1], "b c");
    assert_int_equal(schema.attrs[5].ints[1], -2);
    assert_true(schema.attrs[6].count == 1 && schema.attrs[6].floats[0] == 0.5f);
    assert_int_equal(schema.attrs[7].kind, OP_ATTR_GRAPH);
    heap_free(&memory);
    assert_int_equal(parse("->", &schema, &diag), INLAY_OK);
    assert_int_equal(schema.input_count + schema.output_count + schema.max_inputs + schema.max_outputs, 0);
    heap_free(&memory);
    assert_int_equal(parse("-> Y:float;; to:i=-9223372036854775808", &schema, &diag), INLAY_OK);
    assert_true(schema.attrs[0].i == INT64_MIN);
    heap_free(&memory);
    assert_int_equal(parse("-> Y:float;; mode:s='a'{'a'|''}, k:i!{ 1 | -2}, b:i", &schema, &diag), INLAY_OK);
    assert_int_equal(schema.attrs[0].allowed_count, 2);
    assert_string_equal(schema.attrs[0].allowed.strings[1], "");
    assert_int_equal(schema.attrs[1].allowed.ints[1], -2);
    assert_int_equal(schema.attrs[2].allowed_count, 0);
    heap_free(&memory);
}

static void test_mistakes(void **state)
{
    static const struct {
        const char *text, *says;
    } rows[] = {
        { "", "at its end: expected ',' or '->'" },
        { "X:T", "expected ',' or '->'" },
        { "X:float Y:float -> Z:float", "expected ',', ';' or '->'" },
        { "X -> Y:float", "expected ':' and a type" },
        { "X: -> Y:float", "expected a type after ':'" },
        { "X:T -> Y:T", "neither an element type nor a type that the signature declares" },
        { "X:floot -> Y:float", "character 3 (near \"floot -> Y:float\"): neither an element type" },
        { "X:undefined -> Y:float", "neither an element type" },
        { "X:@none -> Y:float", "no such set of types" },
        { "X:seq(optional(float)) -> Y:float", "a sequence holds tensors or maps" },
        { "X:optional(map(int64,float)) -> Y:float", "an optional holds" },
        { "X:optional(seq(seq(float))) -> Y:float", "types nest no deeper" },
        { "X:map(float,float) -> Y:float", "maps go from int64 or string" },
        { "X:list(float) -> Y:float", "only seq, optional and map take parentheses" },
        { "X:seq(float -> Y:float", "expected ')'" },
        { "X*:float, Z:float -> Y:float", "must be the last" },
        { "X*12:float -> Y:float", "a least count has one digit" },
        { "X:T -> Y:T; T=float, T=double", "this type is declared twice" },
        { "X:T -> Y:T; T", "expected '=' and a set of types" },
        { "X:float -> Y:float;; a:i, a:f", "this attribute is declared twice" },
        { "X:float -> Y:float;; a:q", "no such kind of attribute" },
        { "X:float -> Y:float;; a:i=1.5", "expected the end" },
        { "X:float -> Y:float;; a:i=9223372036854775808", "beyond 64 bits" },
        { "X:float -> Y:float;; a:f=1e99", "exponent between" },
        { "X:float -> Y:float;; a:f=0e61", "exponent between" },
        { "X:float -> Y:float;; a:f=0e-61", "exponent between" },
        { "X:float -> Y:float;; a:f=1e39", "no float holds" },
        { "X:float -> Y:float;; a:f=.", "expected a number" },
        { "X:float -> Y:float;; a:f=0.1234567890123456789", "more than 18 digits" },
        { "X:float -> Y:float;; a:s='x", "a string without its end" },
        { "X:float -> Y:float;; a:is=[1,]", "expected an integer" },
        { "X:float -> Y:float;; a:is=[1 2]", "expected ',' or ']'" },
        { "X:float -> Y:float;; a:g=1", "attributes of this kind have no default" },
        { "X:float -> Y:float;; a:i;", "expected the end" },
        { "X:float -> Y:float;; a:f{1}", "only attributes of kind i and s" },
        { "X:float -> Y:float;; a:i{1,2}", "expected '|' or '}'" },
        { "X:float -> Y:float;; a:s{}", "expected a 'string'" },
        { "X:\x01\x7f -> Y:float", "near \"?? -> Y:float\"" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        op_schema schema;
        inlay_diag diag;
        inlay_status status = parse(rows[i].text, &schema, &diag);

        if (status != INLAY_INVALID_ARGUMENT || strstr(diag.text, rows[i].says) == NULL)
            fail_msg("'%s': %d %s", rows[i].text, (int)status, diag.text);
        heap_free(&memory);
    }
}

static void test_limits(void **state)
{
    char text[4096] = "";
    op_schema schema;
    inlay_diag diag;

    (void)state;
    for (int i = 0; i <= OP_MAX_FORMALS; i++)
        sprintf(text + strlen(text), "%sx%d:float", i > 0 ? "," : "", i);
    strcat(text, "->");
    assert_int_equal(parse(text, &schema, &diag), INLAY_LIMIT_EXCEEDED);
    heap_free(&memory);
    strcpy(text, "->;");
    for (int i = 0; i <= OP_MAX_FORMALS; i++)
        sprintf(text + strlen(text), "%sT%d=float", i > 0 ? "," : "", i);
    assert_int_equal(parse(text, &schema, &diag), INLAY_LIMIT_EXCEEDED);
    heap_free(&memory);
    strcpy(text, "->;;");
    for (int i = 0; i <= OP_MAX_ATTRS; i++)
        sprintf(text + strlen(text), "%sa%d:i=%d", i > 0 ? "," : "", i, i);
    assert_int_equal(parse(text, &schema, &diag), INLAY_LIMIT_EXCEEDED);
    heap_free(&memory);
    strcpy(text, "->;;a:is=[0");
    for (int i = 0; i < OP_MAX_LIST; i++)
        strcat(text, ",1");
    strcat(text, "]");
    assert_int_equal(parse(text, &schema, &diag), INLAY_LIMIT_EXCEEDED);
    heap_free(&memory);
}

/* Truncations and changes of single characters of a signature, in a buffer of exactly its size. */
static void mutate(const char *signature, uint64_t *seed)
{
    static const char signs[] = "\0 ,;:->=|!?*%@()[]'09.eTis\xff";
    size_t bytes = strlen(signature);

    for (size_t at = 0; at < bytes; at++) {
        for (uint32_t k = 0; k < 3; k++) {
            size_t length = k == 0 ? at : bytes;
            char *text = malloc(length + 1);
            op_schema schema;
            inlay_diag diag;
            inlay_status status;

            assert_non_null(text);
            memcpy(text, signature, length);
            text[length] = '\0';
            if (k > 0)
                text[at] = signs[random_below(seed, sizeof signs - 1)];
            status = parse(text, &schema, &diag);
            if (status != INLAY_OK && (status != INLAY_INVALID_ARGUMENT || strstr(diag.text, "signature") == NULL))
                fail_msg("'%s': %d %s", text, (int)status, diag.text);
            heap_free(&memory);
            free(text);
        }
    }
}

static void test_mutations(void **state)
{
    uint64_t seed = 1;
    uint32_t count;
    const op_table *const *tables = op_tables(&count);

    (void)state;
    for (uint32_t table = 0; table < count; table++)
        for (uint32_t row = 0; row < tables[table]->count; row++)
            if (row == 0 || strcmp(tables[table]->rows[row].signature, tables[table]->rows[row - 1].signature) != 0)
                mutate(tables[table]->rows[row].signature, &seed);
}

static void test_failing_allocations(void **state)
{
    const char *text = "X:T, Y*:float -> Z:T; T=float|double; a:s='x', b:ss=['y','z'], c:is=[1,2], d:f=1";
    inlay_status status = INLAY_OUT_OF_MEMORY;
    op_schema schema;
    inlay_diag diag;

    (void)state;
    for (uint32_t left = 0; status != INLAY_OK; left++) {
        assert_true(left < 100);
        memory.left = left;
        status = parse(text, &schema, &diag);
        assert_true(status == INLAY_OK || status == INLAY_OUT_OF_MEMORY);
        heap_free(&memory);
    }
}

static void test_types(void **state)
{
    static const struct {
        const char *signature; /* of two inputs and an output */
        op_value_type in[2];
        op_value_type out; /* kind 0: unchanged */
        const char *fails; /* or NULL */
    } rows[] = {
#define TENSOR(dtype) { INLAY_VALUE_TENSOR, 0, INLAY_##dtype, 0 }
#define SEQUENCE(dtype)                                                                                                \
    {                                                                                                                  \
        INLAY_VALUE_SEQUENCE, INLAY_VALUE_TENSOR, INLAY_##dtype, 0                                                     \
    }
        { "A:T, B:T -> C:T; T=@float", { TENSOR(FLOAT), TENSOR(FLOAT) }, TENSOR(FLOAT), NULL },
        { "A:T, B:T -> C:T; T=@float", { TENSOR(UNDEFINED), TENSOR(DOUBLE) }, TENSOR(DOUBLE), NULL },
        { "A:T, B:T -> C:T; T=@float", { { 0 }, { 0 } }, { 0 }, NULL },
        { "A:T, B:T -> C:bool; T=@float", { { 0 }, { 0 } }, TENSOR(BOOL), NULL },
        { "A:T, B:T -> C:T; T=@float",
          { TENSOR(FLOAT), TENSOR(DOUBLE) },
          { 0 },
          "input 1 (B) is double but input 0 is float" },
        { "A:T, B:T -> C:T; T=@float",
          { TENSOR(INT8), TENSOR(FLOAT) },
          { 0 },
          "input 0 (A) is int8; Op-3 takes float, float16 or double" },
        { "A:T, B:S -> C:T; T=@float, S=seq(@float)", { TENSOR(FLOAT), SEQUENCE(DOUBLE) }, TENSOR(FLOAT), NULL },
        { "A:T, B:S -> C:S; T=@float, S=seq(@float)", { TENSOR(FLOAT), SEQUENCE(DOUBLE) }, SEQUENCE(DOUBLE), NULL },
        { "A:T, B:S -> C:S; T=@float, S=seq(float)",
          { TENSOR(FLOAT), TENSOR(FLOAT) },
          { 0 },
          "is float; Op-3 takes seq(float)" },
        { "A*:T -> C:T; T=@float", { TENSOR(FLOAT), TENSOR(DOUBLE) }, { 0 }, "must have the same type" },
        { "A%:T -> C:T; T=@float", { TENSOR(FLOAT), TENSOR(DOUBLE) }, { 0 }, NULL },
        { "A%:T -> C:T; T=@all-@complex", { TENSOR(COMPLEX64), TENSOR(DOUBLE) }, { 0 }, "is complex64" },
    };
    static const uint32_t values[] = { 0, 1 }, output = 2;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        inlay_node_info node = { .name = { "n", 1 },
                                 .op_type = { "Op", 2 },
                                 .since_version = 3,
                                 .inputs = values,
                                 .outputs = &output,
                                 .input_count = 2,
                                 .output_count = 1 };
        op_value_type out = { 0 };
        op_schema schema;
        inlay_diag diag;
        inlay_status status;

        assert_int_equal(parse(rows[i].signature, &schema, &diag), INLAY_OK);
        status = op_infer_types(&schema, &node, rows[i].in, &out, &diag);
        if ((status == INLAY_OK) != (rows[i].fails == NULL) ||
            (rows[i].fails != NULL && strstr(diag.text, rows[i].fails) == NULL))
            fail_msg("row %zu: %d %s", i, (int)status, diag.text);
        assert_memory_equal(&out, &rows[i].out, sizeof out);
        heap_free(&memory);
    }
}

static void test_type_texts(void **state)
{
    op_types types = { .tensor = INLAY_DTYPE_BIT(INLAY_FLOAT), .optional_sequence = INLAY_DTYPE_BIT(INLAY_INT8) };
    op_value_type one;
    char text[64], small[12];

    (void)state;
    op_types_text(&types, text, sizeof text);
    assert_string_equal(text, "float or optional(seq(int8))");
    op_types_text(&types, small, sizeof small);
    assert_string_equal(small, "float or...");
    op_types_text(&types, small, 1);
    assert_string_equal(small, "");
    assert_false(op_types_single(&types, &one));
    types = (op_types){ .sequence_map = op_map_bit(INLAY_STRING, INLAY_FLOAT) };
    assert_true(op_types_single(&types, &one));
    op_value_type_text(&one, text, sizeof text);
    assert_string_equal(text, "seq(map(string,float))");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_complete_signature),
        cmocka_unit_test(test_open_attributes),
        cmocka_unit_test(test_mistakes),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_mutations),
        cmocka_unit_test(test_failing_allocations),
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_type_texts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
