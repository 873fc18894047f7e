/* qkv.h - everything: transformers on text and images, trained, run and looked into. */
#ifndef QKV_H
#define QKV_H

#include <qkv/base.h>
#include <qkv/options.h>
#include <qkv/safetensors.h>
#include <qkv/npy.h>
#include <qkv/image.h>
#include <qkv/pictures.h>
#include <qkv/resize.h>
#include <qkv/pixels.h>
#include <qkv/color.h>
#include <qkv/masks.h>
#include <qkv/augment.h>
#include <qkv/tokenizer.h>
#include <qkv/tokens.h>
#include <qkv/corpus.h>
#include <qkv/records.h>
#include <qkv/score.h>
#include <qkv/machine.h>
#include <qkv/tensor.h>
#include <qkv/ops.h>
#include <qkv/nn.h>
#include <qkv/opt.h>
#include <qkv/model.h>
#include <qkv/gpt.h>
#include <qkv/bert.h>
#include <qkv/marian.h>
#include <qkv/forecast.h>
#include <qkv/vit.h>
#include <qkv/dense.h>
#include <qkv/mae.h>
#include <qkv/vqgan.h>
#include <qkv/perceptual.h>
#include <qkv/hub.h>
#include <qkv/task.h>
#include <qkv/colorize.h>
#include <qkv/segment.h>
#include <qkv/reconstruct.h>
#include <qkv/recognize.h>
#include <qkv/codes.h>
#include <qkv/looks.h>
#include <qkv/grids.h>
#include <qkv/train.h>
#include <qkv/run.h>

#endif
