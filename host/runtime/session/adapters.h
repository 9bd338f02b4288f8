/* session/adapters.h - option adapter: LoRA adapters that each row of a run chooses.
 *
 * An adapter is a file adapter_model.safetensors with its adapter_config.json, as PEFT writes them, or an adapter of
 * llama.cpp for a model of its format: for some matrix multiplications of the model two factors, lora_A and lora_B. The
 * model gets an input `adapter`, int64 [rows]: for each row (text) the number of an adapter in the order of the option,
 * or -1, its default, for none. After each of these multiplications stands a node LowRank (ai.inlay), which adds the
 * products of the factors. */
#ifndef SESSION_ADAPTERS_H
#define SESSION_ADAPTERS_H
#include "config/options.h"
#include "graph/graph.h"

/* Adds the adapters of option adapter to the model, whose nodes are not bound yet. */
INLAY_NODISCARD inlay_status adapters_add(graph_model *model, const inlay_options *options, inlay_diag *diag);
#endif
