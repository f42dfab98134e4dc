"""Train a classifier of handwritten digits in PyTorch, its gradients synchronized by autosync.

The images are scikit-learn's (`pip install scikit-learn`); TensorFlow is not needed.
Run: torchrun --nproc-per-node 4 examples/torch_digits.py [STRATEGY EPOCHS]; run it again to resume from digits.pt.
"""

import os
import sys

import torch
from sklearn.datasets import load_digits
from torch import nn

import autosync.torch

strategy, epochs = sys.argv[1:] or ("byteps", "20")
rank, replicas = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
saved = torch.load("digits.pt", weights_only=True) if os.path.exists("digits.pt") else None
if saved:
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
autosync.torch.distribute(model, strategy)
images, labels = (torch.tensor(array) for array in load_digits(return_X_y=True))
for epoch in range(saved["epochs"] if saved else 0, int(epochs)):
    for batch in torch.randperm(len(images), generator=torch.Generator().manual_seed(epoch)).split(128)[:-1]:
        own = batch[rank::replicas]
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images[own].float() / 16), labels[own]).backward()
        optimizer.step()
    if rank == 0:
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epochs": epoch + 1}, "new.pt")
        os.replace("new.pt", "digits.pt")
        accuracy = (model(images.float() / 16).argmax(1) == labels).float().mean()
        print(f"epoch {epoch + 1}: {100 * accuracy:.1f} % of the images are right", flush=True)
