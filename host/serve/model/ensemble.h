/* serve/model/ensemble.h - several models that a request runs as one. Each stage is a run of one model; tensors pass
 * from stage to stage by reference. */
#ifndef SERVE_ENSEMBLE_H
#define SERVE_ENSEMBLE_H
#include "serve/model/model.h"

/* A tensor is an input of the ensemble (the first `input_count` ones) or an output of a stage. */
typedef struct ensemble_stage {
    struct model *model; /* a reference; pinned */
    uint32_t *inputs;    /* [model->input_count] tensors; INLAY_NONE = not given */
    uint32_t *outputs;   /* [model->output_count] tensors; INLAY_NONE = not used */
} ensemble_stage;

struct ensemble {
    ensemble_stage *stages; /* [stage_count] in the order in which they run */
    uint32_t stage_count;
    char **names; /* [tensor_count] owned */
    uint32_t tensor_count;
    uint32_t input_count;
    uint32_t *output_tensors; /* [output_count] tensors that are the ensemble's outputs; owned */
    uint32_t output_count;
    inlay_io_info *inputs, *outputs; /* ensemble_describe() creates them; the model takes ownership */
    bool batchable;                  /* all of its models are batchable */
};

/* Appends a stage of the model, without inputs and outputs. Takes a reference to it. */
INLAY_NODISCARD inlay_status ensemble_add_stage(struct ensemble *ensemble, struct model *model, inlay_diag *diag);
/* The tensor of that name; INLAY_NONE: there is none. */
uint32_t ensemble_find(const struct ensemble *ensemble, const char *name);
INLAY_NODISCARD inlay_status ensemble_add_tensor(struct ensemble *ensemble, const char *name, uint32_t *out_tensor,
                                                 inlay_diag *diag);
/* How the stages describe the tensor: as the output of one, or as the input of the first that reads it. NULL: none
 * does. */
const inlay_io_info *ensemble_io(const struct ensemble *ensemble, uint32_t tensor);
/* Describes the inputs and outputs, as the stages do. Every input is used, and every output is made. */
INLAY_NODISCARD inlay_status ensemble_describe(struct ensemble *ensemble, inlay_diag *diag);
/* In model.c, since models own ensembles. NULL is a no-op. */
void ensemble_destroy(struct ensemble *ensemble);

/* ensemble_run.c: the contexts of an instance. */
INLAY_NODISCARD inlay_status ensemble_init_instance(const struct ensemble *ensemble, struct instance *instance,
                                                    inlay_diag *diag);
void ensemble_deinit_instance(const struct ensemble *ensemble, struct instance *instance);
/* See instance_trim(). */
void ensemble_trim_instance(const struct ensemble *ensemble, struct instance *instance);
/* Runs the stages. rows: of the inputs, for the statistics of their models. */
INLAY_NODISCARD inlay_status ensemble_run(const struct ensemble *ensemble, struct instance *instance, uint64_t rows,
                                          const inlay_run_options *run, inlay_diag *diag);
#endif
