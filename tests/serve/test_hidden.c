/* Hidden states of a text: which rows of a run are kept, and which are dropped. */
#include "texts/decode/hidden.h"
#include "cmocka_all.h"

enum { TOKENS = 3000, FIRST = 2, SECOND = 1, WIDTH = FIRST + SECOND, MOST = 1024 };

/* Two outputs of a run of two rows: each number encodes its row and token. */
static float first_layer[2 * TOKENS * FIRST], second_layer[2 * TOKENS * SECOND];
static const text_head head = {
    .dtype = INLAY_FLOAT, .number_bytes = sizeof(float), .hidden_bytes = WIDTH * sizeof(float), .source_count = 2
};

static float number(uint32_t row, size_t token, size_t place)
{
    return (float)(row * 100000 + token * 10 + place);
}

/* A run that reads the tokens from `from` on. */
static void fill(decode_output outputs[2], size_t from, size_t tokens)
{
    for (uint32_t row = 0; row < 2; row++)
        for (size_t t = 0; t < tokens; t++)
            for (size_t place = 0; place < WIDTH; place++)
                *(place < FIRST ? &first_layer[(row * tokens + t) * FIRST + place] : &second_layer[row * tokens + t]) =
                    number(row, from + t, place);
    outputs[0] = (decode_output){ .dtype = INLAY_FLOAT, .rank = 3, .dims = { 2, (int64_t)tokens, FIRST } };
    outputs[1] = (decode_output){ .dtype = INLAY_FLOAT, .rank = 3, .dims = { 2, (int64_t)tokens, SECOND } };
    outputs[0].data = first_layer;
    outputs[1].data = second_layer;
}

static void expect(const hidden_states *hidden, size_t first, size_t count, uint32_t row)
{
    assert_int_equal(hidden->first, first);
    assert_int_equal(hidden->count, count);
    for (size_t t = 0; t < count; t++)
        for (size_t place = 0; place < WIDTH; place++)
            assert_true(((const float *)(const void *)hidden->rows)[t * WIDTH + place] ==
                        number(row, first + t, place));
}

static void test_rows(void **state)
{
    hidden_states hidden = { .count = 0 };
    decode_output outputs[2];

    (void)state;
    for (uint32_t row = 0; row < 2; row++) {
        fill(outputs, 10, 5);
        assert_true(hidden_add(&hidden, &head, &(hidden_run){ outputs, row, 2, 5 }, 10, 5));
        expect(&hidden, 10, 5, row);
        fill(outputs, 15, 4); /* the last two of these were wrong guesses */
        assert_true(hidden_add(&hidden, &head, &(hidden_run){ outputs, row, 2, 4 }, 15, 2));
        expect(&hidden, 10, 7, row);
        hidden_drop(&hidden, &head, 9);
        hidden_drop(&hidden, &head, 16);
        expect(&hidden, 16, 1, row);
        fill(outputs, 20, 3); /* 17 to 19 are missing: the earlier ones are of no use */
        assert_true(hidden_add(&hidden, &head, &(hidden_run){ outputs, row, 2, 3 }, 20, 3));
        expect(&hidden, 20, 3, row);
        hidden_drop(&hidden, &head, 50);
        assert_int_equal(hidden.count, 0);
        hidden_deinit(&hidden);
    }
}

/* A text keeps a limited number of states, the last ones. */
static void test_limit(void **state)
{
    hidden_states hidden = { .count = 0 };
    decode_output outputs[2];
    size_t next = TOKENS;

    (void)state;
    fill(outputs, 0, TOKENS);
    assert_true(hidden_add(&hidden, &head, &(hidden_run){ outputs, 1, 2, TOKENS }, 0, TOKENS));
    expect(&hidden, TOKENS - MOST, MOST, 1);
    for (size_t count = 1; count < 900; next += count, count += 123) {
        fill(outputs, next, count);
        assert_true(hidden_add(&hidden, &head, &(hidden_run){ outputs, 1, 2, count }, next, count));
        assert_true(hidden.count <= MOST && hidden.count >= MOST / 2);
        expect(&hidden, next + count - hidden.count, hidden.count, 1);
    }
    hidden_deinit(&hidden);
}

/* Outputs of another form give no states, and those from before are dropped. */
static void test_others(void **state)
{
    hidden_states hidden = { .count = 0 };
    decode_output outputs[2];

    (void)state;
    for (int form = 0; form < 4; form++) {
        fill(outputs, 0, 5);
        assert_true(hidden_add(&hidden, &head, &(hidden_run){ outputs, 0, 2, 5 }, 0, 5));
        fill(outputs, 5, 2);
        if (form == 0)
            outputs[1].dims[1] = 1; /* of the last token alone */
        else if (form == 1)
            outputs[0].dtype = INLAY_FLOAT16;
        else if (form == 2)
            outputs[0].rank = 2;
        else
            outputs[1].dims[2] = 2;
        assert_false(hidden_add(&hidden, &head, &(hidden_run){ outputs, 0, 2, 2 }, 5, 2));
        assert_int_equal(hidden.count, 0);
    }
    hidden_deinit(&hidden);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_rows), cmocka_unit_test(test_limit),
                                        cmocka_unit_test(test_others) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
