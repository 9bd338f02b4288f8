/* strings.c - onnxruntime-extensions' operators that convert, join, split and compare strings. */
#include "prepost/prepost.h"
#include "inlay/check.h"

enum { MAX_RANK = 32 };

static void cost_texts(const kit_node *node, const kit_plan *shapes, inlay_cost *cost)
{
    (void)node;
    prepost_cost_elements(cost, shapes, 500, 120, 16); /* one allocation a string */
}

/* Allocates output 0 with the shape of input 0. */
static inlay_status allocate_like_input(const kit_call *call)
{
    return kit_alloc_output(call, 0, call->in[0].rank, call->in[0].dims);
}

/* Reads a character of UTF-8 as onnxruntime-extensions does: the first byte alone decides how many follow, and a byte
 * that begins no character, or one that is cut short, is U+FFFD. Returns its bytes. */
static uint64_t read_character(const char *text, uint64_t remaining, uint32_t *out_code)
{
    const unsigned char *byte = (const unsigned char *)text;
    const uint64_t bytes = byte[0] < 0x80             ? 1
                           : (byte[0] & 0xe0) == 0xc0 ? 2
                           : (byte[0] & 0xf0) == 0xe0 ? 3
                           : (byte[0] & 0xf8) == 0xf0 ? 4
                                                      : 0;

    *out_code = 0xfffd;
    if (bytes == 0 || bytes > remaining)
        return 1;
    *out_code = bytes == 1 ? byte[0] : byte[0] & (0x7fu >> bytes);
    for (uint64_t i = 1; i < bytes; i++)
        *out_code = *out_code << 6 | (byte[i] & 0x3fu);
    return bytes;
}

/* Writes a character as UTF-8, at most four bytes. Returns their number. */
static uint64_t write_character(char *to, uint32_t code)
{
    const uint64_t bytes = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;

    for (uint64_t i = bytes; i-- > 1; code >>= 6)
        to[i] = (char)(0x80 | (code & 0x3f));
    to[0] = (char)(bytes == 1 ? code : (0xf00u >> bytes & 0xff) | code);
    return bytes;
}

/* StringUpper, StringLower, StringStrip,.
 * StringLength */

/* StringUpper maps the bytes of ASCII. */
static inlay_status run_upper(const kit_call *call)
{
    const inlay_str *string = call->in[0].data;
    inlay_status status = allocate_like_input(call);

    for (int64_t i = 0; i < call->in[0].count && status == INLAY_OK; i++) {
        char *copy = kit_alloc_string(call, string[i].bytes + 1);

        if (copy == NULL)
            return inlay_fail(call->diag, INLAY_OUT_OF_MEMORY, "no memory for a text");
        for (uint64_t k = 0; k < string[i].bytes; k++) {
            const char c = string[i].data[k];

            copy[k] = c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
        }
        ((inlay_str *)call->out[0].data)[i] = (inlay_str){ copy, string[i].bytes };
    }
    return status;
}

/* The lower-case characters of onnxruntime-extensions: ASCII, Latin-1, Cyrillic and a few Greek ones. Vocabularies are
 * made with it, so its additions to Greek letters with breathings are kept although the results are other letters. */
static uint32_t lower(uint32_t c)
{
    const bool latin = (c >= 'A' && c <= 'Z') || (c >= 0xc0 && c <= 0xde && c != 0xd7);
    const bool greek = (c >= 0x399 && c <= 0x3a0 && c != 0x39e) || (c >= 0x1f08 && c <= 0x1f68);

    return latin || greek || (c >= 0x410 && c <= 0x42f) ? c + 32 : c;
}

/* StringLower maps characters. */
static inlay_status run_lower(const kit_call *call)
{
    const inlay_str *string = call->in[0].data;
    inlay_status status = allocate_like_input(call);

    for (int64_t i = 0; i < call->in[0].count && status == INLAY_OK; i++) {
        char *copy = kit_alloc_string(call, 3 * string[i].bytes + 1); /* U+FFFD has three bytes */
        uint64_t bytes = 0;
        uint32_t code;

        if (copy == NULL)
            return inlay_fail(call->diag, INLAY_OUT_OF_MEMORY, "no memory for a text");
        for (uint64_t k = 0; k < string[i].bytes;) {
            k += read_character(string[i].data + k, string[i].bytes - k, &code);
            bytes += write_character(copy + bytes, lower(code));
        }
        ((inlay_str *)call->out[0].data)[i] = (inlay_str){ copy, bytes };
    }
    return status;
}

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* A string of white space only stays unchanged, as in onnxruntime-extensions. */
static inlay_status run_strip(const kit_call *call)
{
    const inlay_str *string = call->in[0].data;
    inlay_status status = allocate_like_input(call);

    for (int64_t i = 0; i < call->in[0].count && status == INLAY_OK; i++) {
        uint64_t begin = 0, end = string[i].bytes;

        while (begin < end && is_space(string[i].data[begin]))
            begin++;
        while (end > begin && is_space(string[i].data[end - 1]))
            end--;
        if (begin == end) {
            begin = 0;
            end = string[i].bytes;
        }
        status = prepost_put_string(call, (inlay_str *)call->out[0].data + i, string[i].data + begin, end - begin);
    }
    return status;
}

static inlay_status run_length(const kit_call *call)
{
    const inlay_str *string = call->in[0].data;
    const inlay_status status = allocate_like_input(call);
    uint32_t code;

    for (int64_t i = 0; i < call->in[0].count && status == INLAY_OK; i++) {
        int64_t count = 0;

        for (uint64_t k = 0; k < string[i].bytes; count++)
            k += read_character(string[i].data + k, string[i].bytes - k, &code);
        ((int64_t *)call->out[0].data)[i] = count;
    }
    return status;
}

/* The shape of both inputs after numpy-style broadcasting. strides[k][d] is 0 where input k is broadcast along axis
 * d. */
static inlay_status broadcast_shapes(const kit_call *call, uint32_t *out_rank, int64_t *dims,
                                     int64_t strides[2][MAX_RANK])
{
    const uint32_t rank = call->in[0].rank > call->in[1].rank ? call->in[0].rank : call->in[1].rank;

    if (rank > MAX_RANK)
        return inlay_fail(call->diag, INLAY_UNSUPPORTED, "the rank is above the limit of %d", MAX_RANK);
    for (uint32_t d = 0; d < rank; d++)
        dims[d] = 1;
    for (int k = 0; k < 2; k++) {
        const kit_tensor *input = &call->in[k];
        int64_t step = 1;

        for (uint32_t d = rank; d-- > 0;) {
            const int64_t size = d + input->rank >= rank ? input->dims[d + input->rank - rank] : 1;

            strides[k][d] = size == 1 ? 0 : step;
            step *= size;
            if (size != 1 && dims[d] != 1 && dims[d] != size)
                return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH,
                                  "the inputs have %lld and %lld elements along axis "
                                  "%u of the result",
                                  (long long)dims[d], (long long)size, d);
            dims[d] = size != 1 ? size : dims[d];
        }
    }
    *out_rank = rank;
    return INLAY_OK;
}

/* Broadcasts the inputs and calls each(call, i, a, b) for element i of the result and its elements of both inputs. */
static inlay_status for_each_pair(const kit_call *call,
                                  inlay_status (*each)(const kit_call *, int64_t, inlay_str, inlay_str))
{
    int64_t dims[MAX_RANK], strides[2][MAX_RANK], index[MAX_RANK] = { 0 }, count = 1, at[2] = { 0, 0 };
    inlay_status status;
    uint32_t rank = 0;

    INLAY_TRY(broadcast_shapes(call, &rank, dims, strides));
    INLAY_TRY(kit_alloc_output(call, 0, rank, dims));
    for (uint32_t d = 0; d < rank; d++)
        count *= dims[d];
    for (int64_t i = 0; i < count; i++) {
        INLAY_TRY(
            each(call, i, ((const inlay_str *)call->in[0].data)[at[0]], ((const inlay_str *)call->in[1].data)[at[1]]));
        for (uint32_t d = rank; d-- > 0;) {
            at[0] += strides[0][d];
            at[1] += strides[1][d];
            if (++index[d] < dims[d])
                break;
            at[0] -= strides[0][d] * dims[d];
            at[1] -= strides[1][d] * dims[d];
            index[d] = 0;
        }
    }
    INLAY_CHECK(at[0] == 0 && at[1] == 0); /* all indices wrapped around */
done:
    return status;
}

static inlay_status infer_pairs(void *ctx, inlay_infer *in, inlay_diag *diag)
{
    const inlay_value_info *a = in->inputs[0], *b = in->inputs[1];

    (void)ctx, (void)diag;
    if (!prepost_knows_rank(a) || !prepost_knows_rank(b))
        return INLAY_OK;
    if (b->rank == 0)
        return prepost_set(in, 0, a->rank, a->dims);
    if (a->rank == 0)
        return prepost_set(in, 0, b->rank, b->dims);
    for (uint32_t d = 0; d < a->rank; d++)
        if (a->rank != b->rank || a->dims[d].kind != INLAY_DIM_FIXED || b->dims[d].kind != INLAY_DIM_FIXED ||
            a->dims[d].value != b->dims[d].value)
            return INLAY_OK; /* the shape is known at run time only */
    return prepost_set(in, 0, a->rank, a->dims);
}

static inlay_status concat(const kit_call *call, int64_t i, inlay_str a, inlay_str b)
{
    char *copy = kit_alloc_string(call, a.bytes + b.bytes + 1);

    if (copy == NULL)
        return inlay_fail(call->diag, INLAY_OUT_OF_MEMORY, "StringConcat: no memory");
    if (a.bytes > 0)
        memcpy(copy, a.data, a.bytes);
    if (b.bytes > 0)
        memcpy(copy + a.bytes, b.data, b.bytes);
    ((inlay_str *)call->out[0].data)[i] = (inlay_str){ copy, a.bytes + b.bytes };
    return INLAY_OK;
}

static inlay_status equal(const kit_call *call, int64_t i, inlay_str a, inlay_str b)
{
    ((uint8_t *)call->out[0].data)[i] = a.bytes == b.bytes && (a.bytes == 0 || memcmp(a.data, b.data, a.bytes) == 0);
    return INLAY_OK;
}

static inlay_status run_concat(const kit_call *call)
{
    return for_each_pair(call, concat);
}

static inlay_status run_equal(const kit_call *call)
{
    return for_each_pair(call, equal);
}

static inlay_status run_join(const kit_call *call)
{
    const kit_tensor *input = &call->in[0];
    const inlay_str *texts = input->data, *sep = call->in[1].data;
    int64_t axis = call->in[2].count == 1 ? *(const int64_t *)call->in[2].data : -1, dims[MAX_RANK] = { 1 };
    int64_t inner = 1, outer = 1;
    uint32_t rank = 0;
    inlay_status status;

    if (call->in[1].count != 1 || call->in[2].count != 1)
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH,
                          "StringJoin: the separator and the axis must have one element each");
    if (input->rank > MAX_RANK || (input->rank > 0 && (axis < 0 || axis >= (int64_t)input->rank)))
        return inlay_fail(call->diag, INLAY_INVALID_ARGUMENT, "StringJoin: axis %lld is not in a tensor of rank %u",
                          (long long)axis, input->rank);
    axis = input->rank > 0 ? axis : 0;
    for (uint32_t d = 0; d < input->rank; d++) {
        if (d == (uint32_t)axis)
            continue;
        *((int64_t)d < axis ? &outer : &inner) *= input->dims[d];
        dims[rank++] = input->dims[d];
    }
    INLAY_TRY(kit_alloc_output(call, 0, rank > 0 ? rank : 1, dims));
    for (int64_t o = 0; o < outer * inner; o++) {
        const int64_t n = input->rank > 0 ? input->dims[axis] : 1;
        const inlay_str *first = n > 0 ? texts + o / inner * n * inner + o % inner : NULL;
        uint64_t bytes = n > 0 ? (uint64_t)(n - 1) * sep->bytes : 0, at = 0;
        char *copy;

        for (int64_t k = 0; k < n; k++)
            bytes += first[k * inner].bytes;
        copy = kit_alloc_string(call, bytes + 1);
        if (copy == NULL)
            return inlay_fail(call->diag, INLAY_OUT_OF_MEMORY, "StringJoin: no memory");
        for (int64_t k = 0; k < n; k++) {
            const inlay_str part = first[k * inner];

            if (k > 0 && sep->bytes > 0)
                memcpy(copy + at, sep->data, sep->bytes);
            at += k > 0 ? sep->bytes : 0;
            if (part.bytes > 0)
                memcpy(copy + at, part.data, part.bytes);
            at += part.bytes;
        }
        INLAY_CHECK(at == bytes);
        ((inlay_str *)call->out[0].data)[o] = (inlay_str){ copy, bytes };
    }
done:
    return status;
}

static bool is_in(char c, inlay_str set)
{
    return set.bytes > 0 && memchr(set.data, c, set.bytes) != NULL;
}

/* Reads the next piece of the text from *at on, up to a byte of sep. False at the end. If sep is empty, each byte is a
 * piece. */
static bool next_piece(inlay_str text, inlay_str sep, bool skip, uint64_t *at, inlay_str *out)
{
    while (text.bytes > 0 && *at < text.bytes + (sep.bytes > 0)) {
        uint64_t end = *at;

        if (sep.bytes == 0)
            end = *at + 1;
        while (sep.bytes > 0 && end < text.bytes && !is_in(text.data[end], sep))
            end++;
        *out = (inlay_str){ text.data + *at, end - *at };
        *at = sep.bytes > 0 ? end + 1 : end;
        if (!skip || out->bytes > 0)
            return true;
    }
    return false;
}

static inlay_status infer_split(void *ctx, inlay_infer *in, inlay_diag *diag)
{
    const inlay_dim pieces[2] = { prepost_open(), prepost_fixed(2) }, two = prepost_fixed(2);
    inlay_status status = prepost_want_rank(in, 0, 1, 1, "[texts]", diag);

    (void)ctx;
    INLAY_TRY(status);
    INLAY_TRY(prepost_set(in, 0, 2, pieces));
    INLAY_TRY(prepost_set(in, 1, 1, pieces));
    status = prepost_set(in, 2, 1, &two);
done:
    return status;
}

/* Splits all texts: counts the pieces, and writes their rows and columns to `places` and the pieces to `to` unless
 * these are NULL. */
static inlay_status split(const kit_call *call, int64_t *places, inlay_str *to, int64_t *out_count, int64_t *out_most)
{
    const inlay_str *texts = call->in[0].data, sep = *(const inlay_str *)call->in[1].data;
    const bool skip = *(const uint8_t *)call->in[2].data != 0;
    inlay_status status = INLAY_OK;

    *out_count = *out_most = 0;
    for (int64_t i = 0; i < call->in[0].count; i++) {
        uint64_t at = 0;
        int64_t column = 0;
        inlay_str piece;

        while (next_piece(texts[i], sep, skip, &at, &piece)) {
            if (places != NULL) {
                places[2 * *out_count] = i;
                places[2 * *out_count + 1] = column;
            }
            if (to != NULL)
                INLAY_TRY(prepost_put_string(call, &to[*out_count], piece.data, piece.bytes));
            ++*out_count;
            column++;
        }
        *out_most = column > *out_most ? column : *out_most;
    }
done:
    return status;
}

static inlay_status run_split(const kit_call *call)
{
    int64_t count, most, dims[2] = { 0, 2 };
    inlay_status status;

    if (call->in[1].count != 1 || call->in[2].count != 1)
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH,
                          "StringSplit: sep and skip_empty must have one element each");
    INLAY_TRY(split(call, NULL, NULL, &count, &most));
    dims[0] = count;
    INLAY_TRY(kit_alloc_output(call, 0, 2, dims));
    INLAY_TRY(kit_alloc_output(call, 1, 1, dims));
    INLAY_TRY(kit_alloc_output(call, 2, 1, dims + 1));
    INLAY_TRY(split(call, kit_has_output(call, 0) ? call->out[0].data : NULL,
                    kit_has_output(call, 1) ? call->out[1].data : NULL, &count, &most));
    INLAY_CHECK(count == dims[0]); /* both passes find the same pieces */
    if (kit_has_output(call, 2)) {
        ((int64_t *)call->out[2].data)[0] = call->in[0].count;
        ((int64_t *)call->out[2].data)[1] = most;
    }
done:
    return status;
}

static inlay_status run_masked(const kit_call *call)
{
    const inlay_str *string = call->in[0].data;
    const uint8_t *mask = call->in[1].data;
    int64_t count = 0;
    inlay_status status;

    if (call->in[0].count != call->in[1].count)
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH,
                          "MaskedFill: value has %lld elements, but mask has %lld; they must be equal",
                          (long long)call->in[0].count, (long long)call->in[1].count);
    for (int64_t i = 0; i < call->in[0].count; i++)
        count += mask[i] != 0;
    INLAY_TRY(kit_alloc_output(call, 0, 1, &count));
    count = 0;
    for (int64_t i = 0; i < call->in[0].count; i++)
        if (mask[i] != 0)
            INLAY_TRY(
                prepost_put_string(call, (inlay_str *)call->out[0].data + count++, string[i].data, string[i].bytes));
done:
    return status;
}

static const int64_t one_dims[] = { 1 }, two_dims[] = { 2 }, three_dims[] = { 3 }, places_dims[] = { 3, 2 };
static const int64_t axis_0[] = { 0 };
static const inlay_str mixed[] = { PREPOST_STR(" a\xc3\xa9 b\n"), PREPOST_STR("Zz9") };
static const inlay_str uppers[] = { PREPOST_STR(" A\xc3\xa9 B\n"), PREPOST_STR("ZZ9") };
static const inlay_str lowers[] = { PREPOST_STR(" a\xc3\xa9 b\n"), PREPOST_STR("zz9") };
static const inlay_str stripped[] = { PREPOST_STR("a\xc3\xa9 b"), PREPOST_STR("Zz9") };
static const int64_t lengths[] = { 6, 3 };
static const inlay_str joined[] = { PREPOST_STR(" a\xc3\xa9 b\n, Zz9") }, comma[] = { PREPOST_STR(", ") };
static const inlay_str twice[] = { PREPOST_STR(" a\xc3\xa9 b\n, "), PREPOST_STR("Zz9, ") };
static const uint8_t same[] = { 0, 1 }, yes[] = { 1 }, second[] = { 0, 1 };
static const inlay_str zz[] = { PREPOST_STR("Zz9") }, rows[] = { PREPOST_STR("a,,b"), PREPOST_STR("c") },
                       only[] = { PREPOST_STR(",") };
static const inlay_str cells[] = { PREPOST_STR("a"), PREPOST_STR("b"), PREPOST_STR("c") };
static const int64_t places[] = { 0, 0, 0, 1, 1, 0 }, shape[] = { 2, 2 };

#define TEXTS(array, sizes) PREPOST_VIEW(array, sizes, INLAY_STRING)
static const inlay_tensor_view mixed_in[] = { TEXTS(mixed, two_dims) }, uppers_out[] = { TEXTS(uppers, two_dims) };
static const inlay_tensor_view lowers_out[] = { TEXTS(lowers, two_dims) };
static const inlay_tensor_view stripped_out[] = { TEXTS(stripped, two_dims) };
static const inlay_tensor_view lengths_out[] = { PREPOST_VIEW(lengths, two_dims, INLAY_INT64) };
static const inlay_tensor_view pair_in[] = { TEXTS(mixed, two_dims), TEXTS(comma, one_dims) };
static const inlay_tensor_view twice_out[] = { TEXTS(twice, two_dims) };
static const inlay_tensor_view equal_in[] = { TEXTS(mixed, two_dims), TEXTS(zz, one_dims) };
static const inlay_tensor_view equal_out[] = { PREPOST_VIEW(same, two_dims, INLAY_BOOL) };
static const inlay_tensor_view join_in[] = { TEXTS(mixed, two_dims), TEXTS(comma, one_dims),
                                             PREPOST_VIEW(axis_0, one_dims, INLAY_INT64) };
static const inlay_tensor_view join_out[] = { TEXTS(joined, one_dims) };
static const inlay_tensor_view split_in[] = { TEXTS(rows, two_dims), TEXTS(only, one_dims),
                                              PREPOST_VIEW(yes, one_dims, INLAY_BOOL) };
static const inlay_tensor_view split_out[] = { PREPOST_VIEW(places, places_dims, INLAY_INT64), TEXTS(cells, three_dims),
                                               PREPOST_VIEW(shape, two_dims, INLAY_INT64) };
static const inlay_tensor_view masked_in[] = { TEXTS(mixed, two_dims), PREPOST_VIEW(second, two_dims, INLAY_BOOL) };
static const inlay_tensor_view masked_out[] = { TEXTS(zz, one_dims) };

#define EXAMPLE(title, ins, outs) PREPOST_PLAIN_EXAMPLE(title, ins, outs, 0)
static const inlay_op_example upper_examples[] = { EXAMPLE("only letters of ASCII", mixed_in, uppers_out) };
static const inlay_op_example lower_examples[] = { EXAMPLE("only letters of ASCII", mixed_in, lowers_out) };
static const inlay_op_example strip_examples[] = { EXAMPLE("at both ends", mixed_in, stripped_out) };
static const inlay_op_example length_examples[] = { EXAMPLE("characters, not bytes", mixed_in, lengths_out) };
static const inlay_op_example concat_examples[] = { EXAMPLE("one text is broadcast", pair_in, twice_out) };
static const inlay_op_example equal_examples[] = { EXAMPLE("compared with one text", equal_in, equal_out) };
static const inlay_op_example join_examples[] = { EXAMPLE("a list", join_in, join_out) };
static const inlay_op_example split_examples[] = { EXAMPLE("without empty pieces", split_in, split_out) };
static const inlay_op_example masked_examples[] = { EXAMPLE("the second of two", masked_in, masked_out) };

#define STRINGS(name, type, sign, text, shapes, list)                                                                  \
    PREPOST_EXTENSION(name, type, sign, text, shapes, list, .cost = cost_texts, .run = run_##name)
STRINGS(upper, "StringUpper", "input:S -> output:S; S=string", "Converts the letters a to z to upper case.",
        prepost_infer_same, upper_examples)
STRINGS(lower, "StringLower", "input:S -> output:S; S=string",
        "Converts letters of ASCII, Latin-1, Cyrillic and a few Greek ones to lower case.", prepost_infer_same,
        lower_examples)
STRINGS(strip, "StringStrip", "input:S -> output:S; S=string",
        "Removes white space at both ends; a text of white space only stays unchanged.", prepost_infer_same,
        strip_examples)
STRINGS(length, "StringLength", "input:S -> output:I; S=string, I=int64", "Counts the characters.", prepost_infer_same,
        length_examples)
STRINGS(concat, "StringConcat", "left:S, right:S -> output:S; S=string",
        "Concatenates both texts, with numpy-style broadcasting.", infer_pairs, concat_examples)
STRINGS(equal, "StringEqual", "x:S, y:S -> z:B; S=string, B=bool",
        "Compares both texts for equality, with numpy-style broadcasting.", infer_pairs, equal_examples)
STRINGS(join, "StringJoin", "input_X:S, input_sep:S, input_axis:I -> output:S; S=string, I=int64",
        "Joins the texts along an axis, with a separator between them.", NULL, join_examples)
STRINGS(
    split, "StringSplit", "input_X:S, sep:S, skip_empty:B -> indices:I, text:S, shape:I; S=string, B=bool, I=int64",
    "Splits texts at each byte of sep: returns row and column of each piece, the pieces, and the number of rows and of "
    "columns. If sep is empty, each byte is a piece.",
    infer_split, split_examples)
STRINGS(masked, "MaskedFill", "value:S, mask:B -> output:S; S=string, B=bool", "Selects the texts whose mask is true.",
        prepost_infer_list, masked_examples)
