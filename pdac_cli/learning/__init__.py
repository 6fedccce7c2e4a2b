"""The only home of torch: backbones, image data, training."""
