/* Loads, compiles and runs mutated models (mutants.h). Every status is allowed, but no crash, hang, leak, undefined
 * behaviour or failure without a message.
 *
 *     test_mutants                                       as a test: a fixed seed, a bounded number
 *     test_mutants --seed 7 --from 0 --count 50000 DIR   manually, with every model below DIR
 *     test_mutants --seed 7 --from 123 --write FILE DIR  writes that mutant to a file
 *     --trace FILE                                       FILE holds the number of the current mutant
 *
 * A mutant depends on the seed, its number and the list of models only. */
#include "inlay/inlay.h"
#include "mutants.h"
#include <fcntl.h>
#include <ftw.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { MAX_PATHS = 4096, MAX_DIMS = 16, HANG_SECONDS = 40, TEST_COUNT = 6000, TEST_SECONDS = 45 };
#define MAX_ELEMENTS (INT64_C(1) << 16)
#define RUN_TIMEOUT_NS UINT64_C(300000000)

#if defined(__SANITIZE_ADDRESS__)
/* Let a huge allocation return NULL, as without the sanitizer. */
__attribute__((visibility("default"))) const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1:max_allocation_size_mb=1024:handle_abort=1";
}
#endif

/* Several cases of each family, to cover every kernel and every kind of node. */
static const char *const cases[] = {
    "simple/test_sequence_model1",
    "simple/test_sequence_model4",
    "simple/test_sequence_model8",
    "simple/test_strnorm_model_monday_casesensintive_upper",
    "simple/test_expand_shape_model2",
    "node/test_if",
    "node/test_if_seq",
    "node/test_if_opt",
    "node/test_loop11",
    "node/test_loop13_seq",
    "node/test_loop16_seq_none",
    "node/test_scan_sum",
    "node/test_scan9_sum",
    "node/test_range_float_type_positive_delta",
    "node/test_sequence_insert_at_front",
    "node/test_sequence_map_add_2_sequences",
    "node/test_sequence_map_extract_shapes",
    "node/test_identity_sequence",
    "node/test_identity_opt",
    "node/test_optional_get_element",
    "node/test_optional_has_element",
    "node/test_conv_with_strides_and_asymmetric_padding",
    "node/test_basic_conv_with_padding",
    "node/test_conv_with_autopad_same",
    "node/test_convtranspose_dilations",
    "node/test_convtranspose_pads",
    "node/test_convtranspose_autopad_same",
    "node/test_convinteger_with_padding",
    "node/test_qlinearconv",
    "node/test_qlinearmatmul_3D",
    "node/test_matmulinteger",
    "node/test_dynamicquantizelinear",
    "node/test_quantizelinear_axis",
    "node/test_dequantizelinear_axis",
    "node/test_gemm_all_attributes",
    "node/test_matmul_4d",
    "node/test_einsum_batch_matmul",
    "node/test_einsum_inner_prod",
    "node/test_maxpool_2d_dilations",
    "node/test_maxpool_3d_default",
    "node/test_maxpool_2d_ceil",
    "node/test_maxpool_with_argmax_2d_precomputed_strides",
    "node/test_averagepool_2d_pads_count_include_pad",
    "node/test_averagepool_2d_same_lower",
    "node/test_globalaveragepool",
    "node/test_maxunpool_export_with_output_shape",
    "node/test_lstm_with_peepholes",
    "node/test_gru_seq_length",
    "node/test_rnn_seq_length",
    "node/test_simple_rnn_batchwise",
    "node/test_resize_upsample_scales_linear",
    "node/test_resize_downsample_sizes_cubic",
    "node/test_resize_tf_crop_and_resize",
    "node/test_upsample_nearest",
    "node/test_roialign_aligned_true",
    "node/test_gridsample_bicubic",
    "node/test_slice",
    "node/test_slice_negative_axes",
    "node/test_gather_elements_1",
    "node/test_gather_2d_indices",
    "node/test_gathernd_example_int32",
    "node/test_scatter_elements_with_axis",
    "node/test_scatternd_add",
    "node/test_scatter_elements_with_duplicate_indices",
    "node/test_concat_3d_axis_negative_1",
    "node/test_split_variable_parts_2d",
    "node/test_split_zero_size_splits",
    "node/test_reshape_allowzero_reordered",
    "node/test_reshape_zero_and_negative_dim",
    "node/test_tile_precomputed",
    "node/test_expand_dim_changed",
    "node/test_constant_pad",
    "node/test_reflect_pad",
    "node/test_transpose_all_permutations_3",
    "node/test_squeeze_negative_axes",
    "node/test_unsqueeze_three_axes",
    "node/test_constantofshape_int_zeros",
    "node/test_onehot_with_negative_axis",
    "node/test_top_k_negative_axis",
    "node/test_top_k_smallest",
    "node/test_unique_sorted_with_negative_axis",
    "node/test_nonzero_example",
    "node/test_nonmaxsuppression_two_classes",
    "node/test_compress_1",
    "node/test_cumsum_2d_axis_1",
    "node/test_tril_out_neg",
    "node/test_triu_zero",
    "node/test_eyelike_with_dtype",
    "node/test_range_int32_type_negative_delta",
    "node/test_reversesequence_time",
    "node/test_depthtospace_crd_mode",
    "node/test_spacetodepth",
    "node/test_reduce_sum_empty_axes_input_noop_random",
    "node/test_reduce_log_sum_exp_negative_axes_keepdims_random",
    "node/test_reduce_max_keepdims_example",
    "node/test_argmax_keepdims_random",
    "node/test_softmax_axis_1",
    "node/test_logsoftmax_negative_axis",
    "node/test_hardmax_axis_2",
    "node/test_layer_normalization_3d_axis1_epsilon",
    "node/test_batchnorm_epsilon_training_mode",
    "node/test_instancenorm_epsilon",
    "node/test_lrn",
    "node/test_mvn",
    "node/test_nllloss_NCd1d2_with_weight_reduction_mean",
    "node/test_sce_NCd1_mean_weight_negative_ii",
    "node/test_add_bcast",
    "node/test_div_uint8",
    "node/test_mod_int64_fmod",
    "node/test_mod_broadcast",
    "node/test_pow_types_int",
    "node/test_bitshift_left_uint64",
    "node/test_where_long_example",
    "node/test_clip_default_int8_min",
    "node/test_max_int64",
    "node/test_mean_two_inputs",
    "node/test_prelu_broadcast",
    "node/test_cast_FLOAT_to_STRING",
    "node/test_cast_STRING_to_FLOAT",
    "node/test_cast_FLOAT_to_BFLOAT16",
    "node/test_castlike_DOUBLE_to_FLOAT16",
    "node/test_strnormalizer_nostopwords_nochangecase",
    "node/test_tfidfvectorizer_tf_batch_uniandbigrams_skip5",
    "node/test_dropout_default_mask_ratio",
    "node/test_bernoulli",
    "node/test_training_dropout",
    "node/test_adam",
    "node/test_dft_axis",
    "node/test_stft_with_window",
    "node/test_melweightmatrix",
    "node/test_hannwindow_symmetric",
    "node/test_shape_start_negative_1",
    "node/test_size",
    "node/test_shrink_hard",
    "node/test_isinf_positive",
    "node/test_celu",
    "node/test_thresholdedrelu",
    "node/test_equal_bcast",
    "pytorch-operator/test_operator_chunk",
    "pytorch-operator/test_operator_repeat_dim_overflow",
    "pytorch-operator/test_operator_reduced_mean_keepdim",
    "pytorch-operator/test_operator_symbolic_override_nested",
    "pytorch-converted/test_Embedding",
    "pytorch-converted/test_ConvTranspose2d",
    "pytorch-converted/test_PixelShuffle",
};

static uint64_t seed_of_mutant(uint64_t seed, uint64_t number)
{
    uint64_t own = seed * UINT64_C(0xd1342543de82ef95) + number * UINT64_C(0x2545f4914f6cdd1d);

    (void)random_bits(&own);
    return own;
}

static void fill(void *data, uint64_t bytes, inlay_dtype dtype, uint64_t *seed)
{
    uint64_t choice = random_below(seed, 4), width = inlay_dtype_bits(dtype) / 8;
    uint8_t *to = data;

    if (choice == 0 || width == 0 || dtype == INLAY_STRING)
        return; /* zeroes */
    if (dtype == INLAY_BOOL || choice == 1) {
        for (uint64_t i = 0; i < bytes; i++)
            to[i] = (uint8_t)(dtype == INLAY_BOOL ? random_below(seed, 2) : random_bits(seed));
        return;
    }
    for (uint64_t at = 0; at + width <= bytes; at += width) {
        int64_t number = choice == 2 ? (int64_t)random_below(seed, 8) - 2 : random_extreme(seed);
        float narrow = (float)number / 2;
        double wide = (double)number / 2;

        if (dtype == INLAY_FLOAT)
            memcpy(to + at, &narrow, sizeof narrow);
        else if (dtype == INLAY_DOUBLE)
            memcpy(to + at, &wide, sizeof wide);
        else
            memcpy(to + at, &number, width < 8 ? width : 8);
    }
}

static inlay_status make_tensor(const inlay_io_info *info, uint64_t *seed, inlay_value **out, inlay_diag *diag)
{
    int64_t dims[MAX_DIMS], count = 1;
    uint32_t rank = info->rank == INLAY_RANK_UNKNOWN ? (uint32_t)random_below(seed, 4) : info->rank;
    bool declared = info->rank != INLAY_RANK_UNKNOWN;
    inlay_status status;

    if (rank > MAX_DIMS)
        return INLAY_LIMIT_EXCEEDED;
    for (uint32_t d = 0; d < rank; d++) {
        dims[d] = declared && info->dims[d] >= 0 ? info->dims[d] : (int64_t)random_below(seed, 4);
        if (dims[d] > MAX_ELEMENTS || (count *= dims[d]) > MAX_ELEMENTS)
            return INLAY_LIMIT_EXCEEDED;
    }
    status = inlay_value_create(info->dtype, rank, dims, out, diag);
    if (status == INLAY_OK)
        fill(inlay_value_data(*out), inlay_value_bytes(*out), info->dtype, seed);
    return status;
}

static inlay_status make_value(const inlay_io_info *info, uint64_t *seed, inlay_value **out, inlay_diag *diag)
{
    inlay_io_info item = { .dtype = info->dtype, .rank = INLAY_RANK_UNKNOWN };
    inlay_value *items[3] = { NULL };
    uint32_t count = (uint32_t)random_below(seed, info->kind == INLAY_KIND_SEQUENCE ? 4 : 2), made = 0;
    inlay_status status = INLAY_OK;

    if (info->kind == INLAY_KIND_TENSOR)
        return make_tensor(info, seed, out, diag);
    for (; made < count && status == INLAY_OK; made++)
        status = make_tensor(&item, seed, &items[made], diag);
    if (status == INLAY_OK)
        status = inlay_value_create_list(info->kind, info->dtype, items, count, out, diag);
    for (uint32_t i = 0; i < made; i++)
        inlay_value_unref(items[i]);
    return status;
}

static int stop_late(void *user, double fraction, const char *what)
{
    struct timespec now, *start = user;

    (void)fraction;
    (void)what;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec - start->tv_sec > 2;
}

static bool try_model(const uint8_t *data, size_t bytes, uint64_t *seed, bool verbose)
{
    inlay_run_options limits = { .struct_size = sizeof limits, .timeout_ns = RUN_TIMEOUT_NS };
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_options *options = NULL;
    inlay_session *session = NULL;
    inlay_context *context = NULL;
    struct timespec start;
    inlay_status status;

    (void)clock_gettime(CLOCK_MONOTONIC, &start);
    if (inlay_options_create(&options, &diag) != INLAY_OK ||
        inlay_options_set(options, "intra_threads", "1", &diag) != INLAY_OK ||
        inlay_options_set(options, "model_limits", "tensor_bytes=64M,densified_bytes=16M", &diag) != INLAY_OK ||
        inlay_options_set_int(options, "max_run_bytes", 1 << 26, &diag) != INLAY_OK ||
        inlay_options_set_int(options, "free_shapes", random_below(seed, 4) == 0, &diag) != INLAY_OK ||
        inlay_options_set_int(options, "level", random_below(seed, 8) == 0 ? 0 : 99, &diag) != INLAY_OK)
        abort();
    inlay_options_set_progress(options, stop_late, &start);
    status = inlay_session_create_from_bytes(data, bytes, options, &session, &diag);
    mutants_check_message(status, &diag, "session");
    if (status == INLAY_OK) {
        status = inlay_context_create(session, &context, &diag);
        mutants_check_message(status, &diag, "context");
    }
    for (uint32_t i = 0; status == INLAY_OK && i < inlay_session_input_count(session); i++) {
        inlay_io_info info = { .struct_size = sizeof info };
        inlay_value *value = NULL;

        status = inlay_session_input(session, i, &info);
        if (status == INLAY_OK)
            status = make_value(&info, seed, &value, &diag);
        if (status == INLAY_OK) {
            status = inlay_context_set_input(context, i, value, &diag);
            mutants_check_message(status, &diag, "input");
        }
        inlay_value_unref(value);
    }
    for (int run = 0; status == INLAY_OK && run < 2; run++) {
        status = inlay_context_run(context, &limits, &diag);
        mutants_check_message(status, &diag, "run");
    }
    if (verbose)
        (void)printf("status %d: %s\n", (int)status, status == INLAY_OK ? "" : diag.text);
    inlay_context_destroy(context);
    inlay_session_destroy(session);
    inlay_options_destroy(options);
    return status == INLAY_OK;
}

static const char *paths[MAX_PATHS];
static size_t path_count;

static int add_path(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st;
    if (kind == FTW_F && strcmp(path + at->base, "model.onnx") == 0 && path_count < MAX_PATHS)
        paths[path_count++] = strdup(path);
    return 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void add_cases(void)
{
    char path[512];

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        (void)snprintf(path, sizeof path, "%s/%s/model.onnx", ONNX_TEST_DATA, cases[i]);
        if (access(path, R_OK) == 0)
            paths[path_count++] = strdup(path);
        else
            (void)printf("%s is missing\n", cases[i]);
    }
}

struct arguments {
    uint64_t seed, from, count;
    const char *write, *trace;
    const char *dirs[8];
    uint32_t dir_count;
};

static bool read_arguments(int argc, char **argv, struct arguments *arguments)
{
    for (int i = 1; i < argc; i++) {
        bool more = i + 1 < argc;

        if (strcmp(argv[i], "--seed") == 0 && more)
            arguments->seed = strtoull(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--from") == 0 && more)
            arguments->from = strtoull(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--count") == 0 && more)
            arguments->count = strtoull(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--write") == 0 && more)
            arguments->write = argv[++i];
        else if (strcmp(argv[i], "--trace") == 0 && more)
            arguments->trace = argv[++i];
        else if (argv[i][0] != '-' && arguments->dir_count < 8)
            arguments->dirs[arguments->dir_count++] = argv[i];
        else
            return false;
    }
    return true;
}

static uint64_t *open_trace(const char *path)
{
    static uint64_t unseen;
    void *map;
    int fd;

    if (path == NULL)
        return &unseen;
    fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
    if (fd < 0 || ftruncate(fd, sizeof unseen) != 0)
        return &unseen;
    map = mmap(NULL, sizeof unseen, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    (void)close(fd);
    return map == MAP_FAILED ? &unseen : map;
}

static int write_mutant(const struct model_set *model_set, const struct arguments *arguments)
{
    uint64_t own = seed_of_mutant(arguments->seed, arguments->from);
    const char *name;
    size_t bytes;
    uint8_t *data = model_set_mutate(model_set, &own, &bytes, &name);
    FILE *file = fopen(arguments->write, "wb");
    bool ok = file != NULL && fwrite(data, 1, bytes, file) == bytes;

    if (file != NULL)
        (void)fclose(file);
    free(data);
    (void)printf("%s\n", name);
    return ok ? 0 : 1;
}

int main(int argc, char **argv)
{
    struct arguments arguments = { .seed = 1, .count = 0 };
    time_t start = time(NULL);
    uint64_t done = 0, ran = 0, *trace;
    struct model_set *model_set;
    int rc = 0;

    if (!read_arguments(argc, argv, &arguments)) {
        (void)fprintf(stderr,
                      "usage: test_mutants [--seed N] [--from N] [--count N] [--write FILE] [--trace FILE] [DIR]...\n");
        return 2;
    }
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    (void)setrlimit(RLIMIT_AS, &(struct rlimit){ UINT64_C(4) << 30, UINT64_C(4) << 30 });
#endif
    for (uint32_t i = 0; i < arguments.dir_count; i++)
        (void)nftw(arguments.dirs[i], add_path, 16, FTW_PHYS);
    if (arguments.dir_count == 0)
        add_cases();
    qsort(paths, path_count, sizeof paths[0], by_name);
    model_set = model_set_create(paths, path_count);
    trace = open_trace(arguments.trace);
    if (model_set_count(model_set) == 0) {
        (void)fprintf(stderr, "no models\n");
        rc = 1;
    } else if (arguments.write != NULL) {
        rc = write_mutant(model_set, &arguments);
    } else {
        for (uint64_t i = arguments.from; i < arguments.from + (arguments.count > 0 ? arguments.count : TEST_COUNT);
             i++) {
            uint64_t own = seed_of_mutant(arguments.seed, i);
            const char *name;
            size_t bytes;
            uint8_t *data;

            if (arguments.count == 0 && time(NULL) - start > TEST_SECONDS)
                break;
            *trace = i;
            mutants_limit(HANG_SECONDS);
            data = model_set_mutate(model_set, &own, &bytes, &name);
            ran += try_model(data, bytes, &own, arguments.count == 1);
            free(data);
            done++;
        }
        mutants_limit(0);
        (void)printf("%llu mutants of %zu models, %llu of them ran\n", (unsigned long long)done,
                     model_set_count(model_set), (unsigned long long)ran);
    }
    model_set_destroy(model_set);
    for (size_t i = 0; i < path_count; i++)
        free((void *)(uintptr_t)paths[i]);
    return rc;
}
