# SPDX-License-Identifier: Apache-2.0
"""Six layers of BERT-large, random weights, fp16, attention as transformers' "eager" spells it: twenty forwards of
eight texts of 512 tokens, one of which is padded. The README's first screen is what fashim says of it."""
import torch
from transformers import BertConfig, BertModel

torch.manual_seed(0)
config = BertConfig(hidden_size=1024, num_attention_heads=16, intermediate_size=4096, num_hidden_layers=6,
                    attn_implementation="eager")
model = BertModel(config).half().cuda().eval()
tokens = torch.randint(1000, 30000, (8, 512), device="cuda")
mask = torch.ones_like(tokens)
mask[0, 384:] = 0
with torch.no_grad():
    for _ in range(20):
        output = model(tokens, attention_mask=mask).last_hidden_state
print("sum of squares", output.float().square().sum().item())
