/* test_mutants.c - damaged files: decoders and tokenizers fail with a message and access no other memory, which
 * AddressSanitizer checks. */
#include "cmocka_all.h"
#include "random.h"
#include "prepost/image/picture.h"
#include "prepost/audio/sound.h"
#include <stdlib.h>
#include <string.h>
#ifdef PREPOST_TEXT
#include "prepost/text/text.h"
#endif

/* Returns a copy with a few bytes changed or removed, or a truncated copy. The caller frees it. */
static uint8_t *mutate(const uint8_t *from, size_t bytes, uint64_t *seed, size_t *out_bytes)
{
    uint8_t *made = malloc(2 * bytes + 1);
    const uint64_t changes = 1 + random_below(seed, 4);

    assert_non_null(made);
    memcpy(made, from, bytes);
    for (uint64_t i = 0; i < changes && bytes > 0; i++) {
        const size_t at = random_below(seed, bytes);

        switch (random_below(seed, 5)) {
        case 0:
            made[at] = (uint8_t)random_bits(seed);
            break;
        case 1:
            made[at] ^= (uint8_t)(1u << random_below(seed, 8));
            break;
        case 2:
            memset(made + at, random_below(seed, 2) ? 0xff : 0, bytes - at < 4 ? bytes - at : 4);
            break;
        case 3:
            memmove(made + at, made + at + 1, bytes - at - 1);
            bytes--;
            break;
        default:
            bytes = random_below(seed, 4) == 0 ? at : bytes;
        }
    }
    *out_bytes = bytes;
    return made;
}

static uint8_t *allocate_pixels(void *user, int64_t height, int64_t width, int64_t channels)
{
    uint8_t **pixels = user;

    assert_in_range(height * width, 1, 1 << 20);
    free(*pixels);
    return *pixels = malloc((size_t)(height * width * channels));
}

static inlay_status decode(const uint8_t *bytes, size_t count, picture_order order, uint8_t **pixels, inlay_diag *diag)
{
    picture_sink sink = {
        .order = order, .max_pixels = 1 << 20, .alloc = allocate_pixels, .user = pixels, .diag = diag
    };

    return picture_decode(bytes, count, &sink);
}

/* Returns a copy that ends at the end of its allocation. */
static uint8_t *exact(const uint8_t *bytes, size_t count)
{
    uint8_t *copy = malloc(count > 0 ? count : 1);

    assert_non_null(copy);
    memcpy(copy, bytes, count);
    return copy;
}

static void damaged_pictures(void **state)
{
    static const char *const formats[] = { "png", "bmp", "ppm", "jpg", "webp" };
    enum { HEIGHT = 19, WIDTH = 30 };
    uint8_t rgb[HEIGHT * WIDTH * 3];

    (void)state;
    for (size_t i = 0; i < sizeof rgb; i++)
        rgb[i] = (uint8_t)(i * 7 / 3);
    for (size_t format = 0; format < sizeof formats / sizeof formats[0]; format++) {
        inlay_diag diag = INLAY_DIAG_INIT;
        picture_file file = { .data = NULL };
        uint8_t *pixels = NULL;
        uint64_t seed = format;
        uint32_t refused = 0;

        if (!picture_encodes(formats[format]))
            continue;
        assert_int_equal(picture_encode(formats[format], rgb, HEIGHT, WIDTH, PICTURE_RGB, 90, &file, &diag), INLAY_OK);
        assert_int_equal(decode(file.data, file.count, PICTURE_RGB, &pixels, &diag), INLAY_OK);
        if (format < 3)
            assert_memory_equal(pixels, rgb, sizeof rgb);
        for (size_t n = 0; n < file.count; n += 1 + file.count / 64) { /* truncated files */
            uint8_t *part = exact(file.data, n);

            (void)decode(part, n, PICTURE_RGB, &pixels, &diag);
            free(part);
        }
        for (int i = 0; i < 3000; i++) {
            size_t count;
            uint8_t *made = mutate(file.data, file.count, &seed, &count), *own = exact(made, count);

            diag.text[0] = '\0';
            if (decode(own, count, (picture_order)(i % 3), &pixels, &diag) != INLAY_OK) {
                assert_true(diag.text[0] != '\0');
                refused++;
            }
            free(own);
            free(made);
        }
        assert_in_range(refused, 1, 3000);
        free(pixels);
        free(file.data);
    }
}

static void damaged_sounds(void **state)
{
    /* 16 bits with two channels, 24 bits, floats, A-law. */
#define SOUND(head, data)                                                                                              \
    {                                                                                                                  \
        "RIFF\x2c\0\0\0WAVEfmt \x10\0\0\0" head data, sizeof head + sizeof data + 18                                   \
    }
    static const struct {
        const char *bytes;
        size_t count;
    } files[] = {
        SOUND("\x01\0\x02\0\x40\x1f\0\0\0\x7d\0\0\x04\0\x10\0", "data\x08\0\0\0\0\x40\0\xc0\0\x20\0\x20"),
        SOUND("\x01\0\x01\0\x80\x3e\0\0\x80\xbb\0\0\x03\0\x18\0", "data\x06\0\0\0\1\2\3\4\5\6"),
        SOUND("\x03\0\x01\0\x80\x3e\0\0\0\xfa\0\0\x04\0\x20\0", "data\x08\0\0\0\0\0\0\x3f\0\0\x80\x7f"),
        SOUND("\x06\0\x01\0\x40\x1f\0\0\x40\x1f\0\0\x01\0\x08\0", "data\4\0\0\0\1\2\3\4"),
    };
#undef SOUND
    uint64_t seed = 5;

    (void)state;
    for (int i = 0; i < 5000; i++) {
        inlay_diag diag = INLAY_DIAG_INIT;
        size_t count;
        const uint8_t *file = (const uint8_t *)files[i % 4].bytes;
        uint8_t *made = mutate(file, files[i % 4].count, &seed, &count), *own = exact(made, count);
        struct sound sound;

        if (sound_decode(own, count, i % 8 < 4, &sound, &diag) == INLAY_OK) {
            assert_true(sound.frames >= 0 && sound.frames <= (int64_t)count);
            free(sound.samples);
        } else {
            assert_true(diag.text[0] != '\0');
        }
        free(own);
        free(made);
    }
}

#ifdef PREPOST_TEXT
static const char json[] =
    "{\"added_tokens\":[{\"id\":9,\"content\":\"<s>\",\"special\":true}],\"normalizer\":{\"type\":\"Sequence\","
    "\"normalizers\":[{\"type\":\"NFKC\"},{\"type\":\"Replace\",\"pattern\":{\"Regex\":\" {2,}\"},\"content\":\" \"},"
    "{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"CAAAAAAEAAAAAAAAYQBiAA==\"}]},"
    "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":"
    "\"[^\\\\s-c]{3,}|(?i:é+)\"},\"behavior\":\"Isolated\"},"
    "{\"type\":\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":\"always\"}]},"
    "\"post_processor\":{\"type\":\"RobertaProcessing\",\"sep\":[\"<s>\",9],\"cls\":[\"<s>\",9]},"
    "\"decoder\":{\"type\":\"Metaspace\"},"
    "\"model\":{\"type\":\"BPE\",\"unk_token\":\"?\",\"vocab\":{\"_\":0,\"a\":1,\"b\":2,\"ab\":3,\"_ab\":4,\"?\":5},"
    "\"merges\":[\"a b\",[\"_\",\"ab\"]]}}";
static const char pieces[] = "\x0a\x0e\x0a\x05<unk>\x15\0\0\0\0\x18\x02"
                             "\x0a\x0b\x0a\x04\xe2\x96\x81"
                             "a\x15\0\0\x80\xbf"
                             "\x0a\x08\x0a\x01"
                             "b\x15\0\0\0\xc0"
                             "\x0a\x0c\x0a\x05\xe2\x96\x81"
                             "ab\x15\0\0\x20\xc0"
                             "\x12\x02\x18\x01\x1a\x10\x12\x0c\x04\0\0\0\0\x04\0\0"
                             "abc\0\x20\x01";

static void open_damaged_tokenizers(const char *file, size_t bytes, int rounds)
{
    static const char text[] = "ab  a\xc3\xa9 <s>\xff b\xe4\xb8\xad\xf0\x9f\x98\x80 \xe2\x96";
    uint64_t seed = bytes;

    for (int i = 0; i < rounds; i++) {
        inlay_diag diag = INLAY_DIAG_INIT;
        size_t count = bytes, length = 0;
        uint8_t *made =
            i > 0 ? mutate((const uint8_t *)file, bytes, &seed, &count) : exact((const uint8_t *)file, bytes);
        uint8_t *own = exact(made, count);
        text_tokenizer *tokenizer = NULL;
        text_ids ids = { .list = NULL };
        char *back = NULL;

        if (text_open((const char *)own, count, &tokenizer, &diag) == INLAY_OK) {
            assert_int_equal(text_encode(tokenizer, text, sizeof text - 1, true, &ids, &diag), INLAY_OK);
            assert_int_equal(text_decode(tokenizer, ids.list, ids.count, true, &back, &length, &diag), INLAY_OK);
        } else {
            assert_true(i > 0 && diag.text[0] != '\0');
        }
        free(back);
        free(ids.list);
        text_close(tokenizer);
        free(own);
        free(made);
    }
}

static void damaged_tokenizers(void **state)
{
    (void)state;
    open_damaged_tokenizers(json, sizeof json - 1, 4000);
    open_damaged_tokenizers(pieces, sizeof pieces - 1, 4000);
    open_damaged_tokenizers("[PAD]\n[UNK]\n[CLS]\n[SEP]\na\n##b\n", 31, 500);
}

/* Tokenizes a word of 2,000,000 letters in less than a second. Quadratic time would be several minutes, which exceeds
 * the limit that CMakeLists.txt sets. */
static void long_words(void **state)
{
    enum { LENGTH = 2000000 };
    inlay_diag diag = INLAY_DIAG_INIT;
    char *text = malloc(LENGTH);
    text_tokenizer *tokenizer = NULL;
    text_ids ids = { .list = NULL };

    (void)state;
    assert_non_null(text);
    for (int i = 0; i < LENGTH; i++)
        text[i] = "ab"[i % 2];
    assert_int_equal(text_open(json, sizeof json - 1, &tokenizer, &diag), INLAY_OK);
    assert_int_equal(text_encode(tokenizer, text, LENGTH, false, &ids, &diag), INLAY_OK);
    assert_int_equal(ids.count, LENGTH / 2);
    assert_int_equal(ids.list[0], 4);
    assert_int_equal(ids.list[1], 3);
    free(ids.list);
    free(text);
    text_close(tokenizer);
}

/* lstrip and rstrip drop all white space of Unicode, up to the end of the previous token. */
static void added_tokens_strip_spaces(void **state)
{
    static const char file[] = "{\"added_tokens\":[{\"id\":3,\"content\":\"<m>\",\"special\":true,\"lstrip\":true,"
                               "\"rstrip\":true}],\"model\":{\"type\":\"BPE\",\"unk_token\":\"?\","
                               "\"vocab\":{\"a\":0,\"b\":1,\"?\":2},\"merges\":[]}}";
    static const char text[] = "a\xc2\xa0 \xe3\x80\x80<m>\xe2\x80\x83<m>b"; /* U+00A0, U+3000, U+2003 */
    static const int64_t want[] = { 0, 3, 3, 1 };
    inlay_diag diag = INLAY_DIAG_INIT;
    text_tokenizer *tokenizer = NULL;
    text_ids ids = { .list = NULL };

    (void)state;
    assert_int_equal(text_open(file, sizeof file - 1, &tokenizer, &diag), INLAY_OK);
    assert_int_equal(text_encode(tokenizer, text, sizeof text - 1, false, &ids, &diag), INLAY_OK);
    assert_int_equal(ids.count, sizeof want / sizeof want[0]);
    assert_memory_equal(ids.list, want, sizeof want);
    free(ids.list);
    text_close(tokenizer);
}

/* A token that is only a part of a UTF-8 character does not match inside a character. */
static void partial_characters_do_not_match(void **state)
{
    static const char file[] = "\x0a\x0e\x0a\x05<unk>\x15\0\0\0\0\x18\x02"
                               "\x0a\x0a\x0a\x01\xc3\x15\0\0\x80\xbf\x18\x04"
                               "\x0a\x0a\x0a\x03\xe2\x96\x81\x15\0\0\x80\xbf";
    inlay_diag diag = INLAY_DIAG_INIT;
    uint8_t *own = exact((const uint8_t *)file, sizeof file - 1);
    text_tokenizer *tokenizer = NULL;
    text_ids ids = { .list = NULL };

    (void)state;
    assert_int_equal(text_open((const char *)own, sizeof file - 1, &tokenizer, &diag), INLAY_OK);
    assert_int_equal(text_encode(tokenizer, "\xc3\xa9\xc3\xa9", 4, false, &ids, &diag), INLAY_OK);
    assert_int_equal(ids.count, 2);
    assert_int_equal(ids.list[0], 2);
    assert_int_equal(ids.list[1], 0);
    free(ids.list);
    text_close(tokenizer);
    free(own);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(damaged_pictures),          cmocka_unit_test(damaged_sounds),
#ifdef PREPOST_TEXT
        cmocka_unit_test(damaged_tokenizers),        cmocka_unit_test(long_words),
        cmocka_unit_test(added_tokens_strip_spaces), cmocka_unit_test(partial_characters_do_not_match),
#endif
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
