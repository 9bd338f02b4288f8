/* Packed files of tensors: packed data unpacks to the same bytes, and every damaged file is an error with a message. */
#include "cmocka_all.h"
#include "random.h"
#include "base/hash.h"
#include "model/packed.h"
#include "quantize/pack.h"
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 4096, MOST = 8 * CHUNK + 1236, MUTANTS = 10000 };

static uint64_t seed = 11;

/* Writes a float of 200 values, or two float16 of 200 values. */
static void put_kinds(uint8_t *to, bool is_float)
{
    uint32_t bits = 0;

    for (int k = 0; k < (is_float ? 1 : 2); k++)
        bits =
            bits << 16 | (random_below(&seed, 200) * (is_float ? 0x12345 : 0x137) & (is_float ? 0x3fffffff : 0x3fff));
    memcpy(to, &bits, sizeof bits);
}

/* One chunk each: floats with equal exponents, float16, codes with few values, zeros, noise, 8-bit weights, and
 * dequantized weights as floats and float16. */
static void fill(uint8_t *raw, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        switch (i / CHUNK % 8) {
        case 0:
            raw[i] = i % 4 == 3   ? 60
                     : i % 4 == 2 ? (uint8_t)(random_below(&seed, 16) + 112)
                                  : (uint8_t)random_bits(&seed);
            break;
        case 1:
            raw[i] = i % 2 == 1 ? (uint8_t)(random_below(&seed, 3) + 44) : (uint8_t)random_bits(&seed);
            break;
        case 2:
            raw[i] = (uint8_t)random_below(&seed, 5);
            break;
        case 3:
            raw[i] = 0;
            break;
        case 4:
            raw[i] = (uint8_t)random_bits(&seed);
            break;
        case 5:
            raw[i] = (uint8_t)(128 + random_below(&seed, 40) + random_below(&seed, 40) - random_below(&seed, 40) -
                               random_below(&seed, 40));
            break;
        default:
            if (i % 4 == 0)
                put_kinds(raw + i, i / CHUNK % 8 == 6);
        }
}

static void round_trip(void **state)
{
    static const size_t sizes[] = { 0,         1,   7, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 5, 5 * CHUNK + 3001,
                                    8 * CHUNK, MOST };
    uint8_t *raw = malloc(MOST);

    (void)state;
    fill(raw, MOST);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        inlay_diag diag = INLAY_DIAG_INIT;
        uint8_t *packed;
        void *back;
        size_t bytes, back_bytes;
        bool smaller;

        assert_int_equal(pack_bytes(raw, sizes[i], CHUNK, &packed, &bytes, &smaller, &diag), INLAY_OK);
        assert_int_equal(smaller, sizes[i] >= CHUNK - 1);
        if (!smaller)
            continue;
        assert_true(bytes < sizes[i]);
        assert_true(is_packed_file(packed, bytes));
        assert_int_equal(packed_open(packed, bytes, &back, &back_bytes, &diag), INLAY_OK);
        assert_int_equal(back_bytes, sizes[i]);
        if (sizes[i] > 5 * CHUNK) /* 8-bit codes are stored as nibbles, one of which is noise */
            assert_int_equal(packed[PACKED_HEADER + 5 * PACKED_ENTRY + 5], 0);
        for (uint32_t k = 6; sizes[i] >= 8 * (size_t)CHUNK && k < 8; k++) { /* 256 values with one byte each */
            assert_int_equal(packed[PACKED_HEADER + k * PACKED_ENTRY + 4], PACKED_TABLE);
            assert_int_equal(packed[PACKED_HEADER + k * PACKED_ENTRY + 5], k == 6 ? 4 : 2);
        }
        assert_memory_equal(back, raw, sizes[i]);
        free(back);
        free(packed);
    }
    free(raw);
}

/* Updates the checksum of header and index, so that their contents are checked. */
static void sign(uint8_t *file, size_t bytes)
{
    uint32_t count;
    uint64_t hash;

    memcpy(&count, file + 20, 4);
    if (count > (bytes - PACKED_HEADER) / PACKED_ENTRY)
        return;
    hash = hash_bytes(file + PACKED_HEADER, (size_t)count * PACKED_ENTRY, hash_bytes(file, PACKED_HEADER - 8, 0));
    memcpy(file + 24, &hash, 8);
}

/* Changes, removes or inserts a few bytes. Returns the new size. */
static size_t mutate(uint8_t *file, size_t bytes)
{
    const uint32_t changes = 1 + random_below(&seed, 3);

    for (uint32_t i = 0; i < changes; i++) { /* half of them in the header and the index */
        const size_t at = random_below(&seed, 2) ? random_below(&seed, bytes)
                                                 : 8 + random_below(&seed, PACKED_HEADER + 9 * PACKED_ENTRY - 8);

        file[at] = random_below(&seed, 3) == 0 ? (uint8_t)random_bits(&seed)
                   : random_below(&seed, 2)    ? 0xff
                                               : (uint8_t)(file[at] ^ 1u << random_below(&seed, 8));
    }
    if (random_below(&seed, 4) == 0) {
        const size_t more = random_below(&seed, 64);

        return random_below(&seed, 2) ? bytes + more : bytes - (more < bytes - PACKED_HEADER ? more : 0);
    }
    return bytes;
}

static void damaged_files_are_refused(void **state)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    uint8_t *raw = malloc(MOST), *packed, *file;
    size_t bytes;
    bool smaller;
    uint32_t refused = 0;

    (void)state;
    fill(raw, MOST);
    assert_int_equal(pack_bytes(raw, MOST, CHUNK, &packed, &bytes, &smaller, &diag), INLAY_OK);
    for (int i = 0; i < MUTANTS; i++) {
        inlay_diag why = INLAY_DIAG_INIT;
        size_t now, got;
        void *back;
        inlay_status status;

        file = calloc(bytes + 64, 1);
        memcpy(file, packed, bytes);
        now = mutate(file, bytes);
        if (i % 3 != 0)
            sign(file, now);
        file = realloc(file, now); /* an exact size lets AddressSanitizer detect reads beyond the end */
        assert_non_null(file);
        if (is_packed_file(file, now)) {
            status = packed_open(file, now, &back, &got, &why);
            if (status == INLAY_OK) { /* the change had no effect */
                assert_true(got <= 9 * CHUNK);
                assert_memory_equal(back, raw, got < MOST ? got : MOST);
            } else {
                refused++;
                assert_null(back);
                assert_true(why.text[0] != '\0');
            }
            free(back);
        }
        free(file);
    }
    assert_true(refused > MUTANTS * 8 / 10);
    free(packed);
    free(raw);
}

/* Small files that request much memory. */
static void requested_memory_is_limited(void **state)
{
    enum { ENTRIES = 4000 };
    const size_t bytes = PACKED_HEADER + (size_t)ENTRIES * PACKED_ENTRY;
    uint8_t *file = calloc(bytes, 1);
    const uint32_t chunk = PACKED_MAX_CHUNK, count = ENTRIES;
    const uint64_t claimed = (uint64_t)chunk * count;
    inlay_diag diag = INLAY_DIAG_INIT;
    void *back;
    size_t got;

    (void)state;
    memcpy(file, PACKED_MAGIC, 8);
    memcpy(file + 8, &claimed, 8);
    memcpy(file + 16, &chunk, 4);
    memcpy(file + 20, &count, 4);
    sign(file, bytes);
    assert_int_equal(packed_open(file, bytes, &back, &got, &diag), INLAY_LIMIT_EXCEEDED);
    assert_non_null(strstr(diag.text, "times as many"));
    assert_null(back);
    free(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(round_trip), cmocka_unit_test(damaged_files_are_refused),
                                        cmocka_unit_test(requested_memory_is_limited) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
