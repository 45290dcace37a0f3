// An extension of JupyterLab: shows the page that a notebook has saved of our widget, as long as no live widget is there.
// Without it JupyterLab shows an error for each widget of yesterday, because its model went with the kernel. It is a
// prebuilt extension written by hand, so nothing has to be built: JupyterLab calls `init` with the modules that it shares,
// and `get` for the plugin.
(() => {
  const OWN = "application/x-deletekit-widget+json"; // in an output of ours, beside the next two
  const LIVE = "application/vnd.jupyter.widget-view+json";
  const SAVED = "text/html";
  let shared;

  window._JUPYTERLAB = window._JUPYTERLAB ?? {};
  window._JUPYTERLAB.deletekit = {
    init: (modules) => void (shared = modules),
    get: async () => {
      const made = await plugin();
      return () => ({ __esModule: true, default: made });
    },
  };

  async function plugin() {
    const { IRenderMimeRegistry } = await load("@jupyterlab/rendermime");
    const { Panel } = await load("@lumino/widgets");
    const activate = (_, registry) => {
      const Renderer = rendererClass(Panel, registry);
      // Before live widgets, whose rank is -10. In a notebook that is not trusted JupyterLab takes neither, but the page.
      registry.addFactory({ safe: false, mimeTypes: [OWN], createRenderer: () => new Renderer() }, -20);
    };
    return { id: "deletekit:saved-page", autoStart: true, requires: [IRenderMimeRegistry], activate };
  }

  async function load(name) {
    const versions = Object.values(shared[name]);
    const factory = await (versions.find((version) => version.loaded) ?? versions[0]).get();
    return factory();
  }

  /** Return the session of the notebook or console that a widget of JupyterLab is in. */
  function sessionOf(widget) {
    for (let place = widget; place; place = place.parent) if (place.sessionContext) return place.sessionContext;
    return null;
  }

  /** Make a class that holds the saved page, and has the live widget beside it: one of the two is hidden. */
  function rendererClass(Panel, registry) {
    return class extends Panel {
      async renderModel(model) {
        this.model = model;
        for (const old of [...this.widgets, this.live]) old?.dispose();
        this.live = null;
        const page = registry.createRenderer(SAVED);
        this.addWidget(page);
        this.goLive();
        await page.renderModel(model);
      }

      onAfterAttach() {
        this.goLive();
      }

      /** Ask for the live widget, beside this one in the output: there Jupyter's widget manager finds it. */
      goLive() {
        const area = this.parent?.parent;
        if (this.live || !this.model?.data[LIVE] || !area?.rendermime) return;
        const live = area.rendermime.createRenderer(LIVE);
        live.addClass("jp-OutputArea-output");
        live.hide();
        this.live = live;
        this.parent.addWidget(live);
        const changed = () => live === this.live && this.choose(live.widgets.length > 0);
        new MutationObserver(changed).observe(live.node, { childList: true });
        live.renderModel(this.model);
        const session = sessionOf(this);
        session?.kernelChanged.connect(this.kernelChanged, this);
        session?.statusChanged.connect(this.statusChanged, this);
      }

      kernelChanged(_, { oldValue }) {
        if (oldValue) this.choose(false);
      }

      statusChanged(_, status) {
        if (status === "restarting" || status === "autorestarting") this.choose(false);
      }

      choose(alive) {
        if (this.isDisposed || !this.live) return;
        this.live.setHidden(!alive);
        this.setHidden(alive);
      }
    };
  }
})();
