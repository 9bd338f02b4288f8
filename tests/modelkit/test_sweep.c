/* test_sweep.c - parts of `inlay bench --sweep` that need no clock: confidence intervals, and energy counters in a
 * simulated /sys. */
#include "timing/energy.h"
#include "cli/sweep.h"
#include "cmocka_all.h"
#include "random.h"
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[] = "/tmp/inlay-sys.XXXXXX";

static void put(const char *name, const char *text)
{
    char path[512];
    FILE *file;

    (void)snprintf(path, sizeof path, "%s/%s", root, name);
    for (char *slash = path + strlen(root) + 1; (slash = strchr(slash, '/')) != NULL; slash++) {
        *slash = '\0';
        (void)mkdir(path, 0777);
        *slash = '/';
    }
    file = fopen(path, "w");
    assert_non_null(file);
    (void)fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *where)
{
    (void)info;
    (void)kind;
    (void)where;
    return remove(path);
}

static int make_root(void **state)
{
    (void)state;
    (void)strcpy(strrchr(root, '.'), ".XXXXXX");
    return mkdtemp(root) == NULL;
}

static int drop_root(void **state)
{
    (void)state;
    return nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void test_nothing(void **state)
{
    struct energy energy;

    (void)state;
    assert_false(energy_open(&energy, root, NULL));
    assert_non_null(strstr(energy.why, "powercap"));
    assert_true(energy_read(&energy) < 0);
}

/* Two packages, of which one counter wraps around; domains inside packages are not counted twice. */
static void test_powercap(void **state)
{
    struct energy energy;

    (void)state;
    put("powercap/intel-rapl:0/energy_uj", "1000000\n");
    put("powercap/intel-rapl:0/max_energy_range_uj", "5000000\n");
    put("powercap/intel-rapl:1/energy_uj", "4000000\n");
    put("powercap/intel-rapl:1/max_energy_range_uj", "5000000\n");
    put("powercap/intel-rapl:0:0/energy_uj", "0\n");
    assert_true(energy_open(&energy, root, NULL));
    assert_string_equal(energy.source, "powercap");
    assert_int_equal(energy.count, 2);
    put("powercap/intel-rapl:0/energy_uj", "2500000\n");
    put("powercap/intel-rapl:1/energy_uj", "500000\n");
    put("powercap/intel-rapl:0:0/energy_uj", "900000\n");
    assert_float_equal(energy_read(&energy), 1.5 + 1.5, 1e-9);
    put("powercap/intel-rapl:0/energy_uj", "2600000\n");
    assert_float_equal(energy_read(&energy), 3.1, 1e-9);
    put("powercap/intel-rapl:0/energy_uj", "");
    assert_true(energy_read(&energy) < 0);
    assert_non_null(strstr(energy.why, "intel-rapl:0"));
}

static void test_hwmon(void **state)
{
    struct energy energy;

    (void)state;
    put("hwmon/hwmon2/energy1_input", "70\n");
    assert_true(energy_open(&energy, root, NULL));
    assert_string_equal(energy.source, "hwmon");
    put("hwmon/hwmon2/energy1_input", "2000070\n");
    assert_float_equal(energy_read(&energy), 2, 1e-9);
    for (int i = 0; i < ENERGY_MAX_COUNTERS; i++) { /* with the first one, too many */
        char name[64];

        (void)snprintf(name, sizeof name, "hwmon/hwmon3/energy%d_input", i);
        put(name, "1\n");
    }
    assert_false(energy_open(&energy, root, NULL));
    assert_non_null(strstr(energy.why, "more than 16 counters"));
}

static void test_command(void **state)
{
    char command[600];
    struct energy energy;

    (void)state;
    put("meter", "12.5\n");
    (void)snprintf(command, sizeof command, "cat %s/meter", root);
    assert_true(energy_open(&energy, "/nowhere", command));
    put("meter", "20\n");
    assert_float_equal(energy_read(&energy), 7.5, 1e-9);
    assert_false(energy_open(&energy, "/nowhere", "echo no number"));
    assert_non_null(strstr(energy.why, "did not print"));
}

/* The interval contains another mean of the same number of slices in about 95 % of 2000 pairs. */
static void test_interval(void **state)
{
    uint64_t seed = 7;
    int held = 0;

    (void)state;
    for (int repeat = 0; repeat < 2000; repeat++) {
        sweep_point point[2] = { { .slices = SWEEP_SLICES }, { .slices = SWEEP_SLICES } };

        for (int k = 0; k < 2; k++) {
            for (int i = 0; i < SWEEP_SLICES; i++) {
                double sum = 0;

                for (int n = 0; n < 12; n++) /* a sum of uniform numbers is nearly normal */
                    sum += random_unit(&seed);
                point[k].rates[i] = 100 + 5 * (sum - 6);
            }
            sweep_estimate(&point[k]);
        }
        held += point[1].rate >= point[0].low && point[1].rate <= point[0].high;
    }
    assert_in_range(held, 1860, 1940);
}

/* Six slices that are equal by chance: the rate in another process may still differ. */
static void test_interval_is_never_a_point(void **state)
{
    sweep_point point = { .slices = 6, .rates = { 100, 100, 100, 100, 100, 100 } };

    (void)state;
    sweep_estimate(&point);
    assert_true(point.low <= 98.5 && point.high >= 101.5 && !point.noisy);
}

static void test_noise(void **state)
{
    sweep_point calm = { .slices = 6, .rates = { 100, 101, 100, 99, 100, 100 }, .spent_joules = 3, .items = 60 };
    sweep_point wild = { .slices = 6, .rates = { 100, 140, 60, 120, 80, 100 }, .spent_joules = -1, .items = 60 };

    (void)state;
    sweep_estimate(&calm);
    sweep_estimate(&wild);
    assert_false(calm.noisy);
    assert_true(wild.noisy);
    assert_float_equal(calm.rate, 100, 1e-9);
    assert_float_equal(calm.joules, 0.05, 1e-9);
    assert_true(wild.joules < 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_nothing, make_root, drop_root),
        cmocka_unit_test_setup_teardown(test_powercap, make_root, drop_root),
        cmocka_unit_test_setup_teardown(test_hwmon, make_root, drop_root),
        cmocka_unit_test_setup_teardown(test_command, make_root, drop_root),
        cmocka_unit_test(test_interval),
        cmocka_unit_test(test_interval_is_never_a_point),
        cmocka_unit_test(test_noise),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
