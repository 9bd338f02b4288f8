#include "cpu/weights/terms_weights.h"
#include "cpu/matrix/terms.h"
#include "inlay/check.h"
#include "inlay/host.h"
#include "simd/optional.h"

/* Programs of `inlay bundle` omit these. */
OPTIONAL_WITH(terms_pack_weights, "cpu_product cpu_conv");

static terms_matrix matrix_of(const tensor_layout *plain, const void *source)
{
    const bool image = plain->rank == 4;
    const int64_t rows = image ? plain->dims[2] : 1, columns = plain->rank > 2 ? plain->dims[plain->rank - 1] : 1;

    INLAY_CHECK(plain->rank >= 2 && plain->rank <= 4);
    return (terms_matrix){ .data = source,
                           .k = plain->dims[1] * rows * columns,
                           .n = plain->dims[0],
                           .n_step = plain->strides[0],
                           .inner = plain->dims[1],
                           .inner_step = plain->strides[1],
                           .columns = columns,
                           .column_step = plain->rank > 2 ? plain->strides[plain->rank - 1] : 0,
                           .row_step = image ? plain->strides[2] : 0 };
}

void terms_layout(const tensor_layout *plain, int terms, tensor_layout *layout)
{
    const terms_matrix matrix = matrix_of(plain, NULL);
    const int64_t panels = terms_panels(matrix.n), floats = terms_pack_floats(matrix.k, matrix.n, terms),
                  dims[] = { terms, panels, floats / panels / terms };

    INLAY_CHECK(dims[0] * dims[1] * dims[2] == floats);
    layout_plain(layout, 3, dims);
}

static bool is_terms_layout(const tensor_layout *plain, const tensor_layout *layout)
{
    tensor_layout same;

    if (layout->rank != 3 || layout->dims[0] < 1 || layout->dims[0] > TERMS || plain->rank < 2 || plain->rank > 4 ||
        plain->kind != LAYOUT_STRIDED || layout_is_blocked(plain) || plain->type != ELEMENT_FLOAT ||
        layout->type != ELEMENT_FLOAT || plain->dims[0] <= 0)
        return false;
    terms_layout(plain, (int)layout->dims[0], &same);
    return layout_equal(&same, layout);
}

typedef struct terms_job {
    terms_matrix matrix;
    int terms;
    float *target;
} terms_job;

static inlay_status pack_panels(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const terms_job *job = user;

    (void)worker;
    terms_pack(&job->matrix, job->terms, begin, end, job->target);
    return INLAY_OK;
}

bool terms_pack_weights(const cpu_state *state, inlay_run *run, const tensor_layout *plain, const void *source,
                        const tensor_layout *layout, void *target)
{
    terms_job job = { .terms = (int)layout->dims[0], .target = target };

    if (!is_terms_layout(plain, layout))
        return false;
    job.matrix = matrix_of(plain, source);
    return state->host->parallel_for(state->host->ctx, run, terms_panels(job.matrix.n), 1, pack_panels, &job) ==
           INLAY_OK;
}
