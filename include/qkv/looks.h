/* looks.h - teaching a perceptual network what to look for, where there is no published one: the
 * classes of pictures or, where they have none, the colours that their grey versions had.
 * Layer: task */
#ifndef QKV_LOOKS_H
#define QKV_LOOKS_H

#include <qkv/augment.h>
#include <qkv/perceptual.h>
#include <qkv/task.h>

QKV_BEGIN_DECLS

/* What a network for pictures of that side would be asked: a configuration to make it with. More
 * than one class: those; else 2 numbers of every place, the mean a and b of Lab there. */
qkv_perceptual_config qkv_looks_config(size_t side, size_t classes);

/* Answer that, for pictures of 3 channels that augment (NULL: nothing) changes. Nothing is held
 * out. train and the model, a qkv_perceptual that answers as many numbers, must outlive the task.
 * On failure out->self is NULL. */
qkv_status qkv_task_looks(qkv_task *out, qkv_model *model, const qkv_pixels *train,
                          const qkv_augment_options *augment, uint64_t seed);

QKV_END_DECLS
#endif
