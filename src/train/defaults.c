/* defaults.c - the defaults of every struct of options, for those who have no LS_..._DEFAULTS: C++ and other
 * languages. */
#include "lockstep/checkpoint.h"
#include "lockstep/data.h"
#include "lockstep/generate.h"
#include "lockstep/nn.h"
#include "lockstep/optim.h"
#include "lockstep/run.h"
#include "lockstep/trainer.h"
#include "lockstep/weights.h"

ls_arrays_load_opts ls_arrays_load_opts_default(void)
{
    return (ls_arrays_load_opts){ LS_ARRAYS_LOAD_DEFAULTS };
}
ls_arrays_save_opts ls_arrays_save_opts_default(void)
{
    return (ls_arrays_save_opts){ LS_ARRAYS_SAVE_DEFAULTS };
}
ls_batch_norm_opts ls_batch_norm_opts_default(void) { return (ls_batch_norm_opts){ LS_BATCH_NORM_DEFAULTS }; }
ls_conv2d_opts ls_conv2d_opts_default(void) { return (ls_conv2d_opts){ LS_CONV2D_DEFAULTS }; }
ls_conv_opts ls_conv_opts_default(void) { return (ls_conv_opts){ LS_CONV_DEFAULTS }; }
ls_dataset_options ls_dataset_options_default(void) { return (ls_dataset_options){ LS_DATASET_DEFAULTS }; }
ls_generate_opts ls_generate_opts_default(void) { return (ls_generate_opts){ LS_GENERATE_DEFAULTS }; }
ls_generator_opts ls_generator_opts_default(void) { return (ls_generator_opts){ LS_GENERATOR_DEFAULTS }; }
ls_linear_opts ls_linear_opts_default(void) { return (ls_linear_opts){ LS_LINEAR_DEFAULTS }; }
ls_loader_options ls_loader_options_default(void) { return (ls_loader_options){ LS_LOADER_DEFAULTS }; }
ls_optimizer ls_optimizer_default(void) { return (ls_optimizer){ LS_OPTIMIZER_DEFAULTS }; }
ls_pairs_options ls_pairs_options_default(void) { return (ls_pairs_options){ LS_PAIRS_DEFAULTS }; }
ls_parallel ls_parallel_default(void) { return (ls_parallel){ LS_PARALLEL_DEFAULTS }; }
ls_report_opts ls_report_opts_default(void) { return (ls_report_opts){ LS_REPORT_DEFAULTS }; }
ls_run_opts ls_run_opts_default(void) { return (ls_run_opts){ LS_RUN_DEFAULTS }; }
ls_sampling ls_sampling_default(void) { return (ls_sampling){ LS_SAMPLING_DEFAULTS }; }
ls_text_options ls_text_options_default(void) { return (ls_text_options){ LS_TEXT_DEFAULTS }; }
ls_trainer_opts ls_trainer_opts_default(void) { return (ls_trainer_opts){ LS_TRAINER_DEFAULTS }; }
ls_update_opts ls_update_opts_default(void) { return (ls_update_opts){ LS_UPDATE_DEFAULTS }; }
ls_weights_export_opts ls_weights_export_opts_default(void)
{
    return (ls_weights_export_opts){ LS_WEIGHTS_EXPORT_DEFAULTS };
}
ls_weights_load_opts ls_weights_load_opts_default(void)
{
    return (ls_weights_load_opts){ LS_WEIGHTS_LOAD_DEFAULTS };
}
